import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { ServiceImpl } from '@connectrpc/connect';
import type {
  UsageService,
  VersionUsageSchema,
} from '../../../proto/gen/rms/portal/v1/usage_pb.ts';
import { releasedVersions, serve, UNSTABLE } from '../../../services/contract/versions.ts';
import { listVersionUsage, type VersionUsageRow } from '../../auth/usage.ts';
import { callOf } from '../call.ts';
import type { Portal } from '../create.ts';
import { timestampOf } from '../views/values.ts';

const MAX_ROWS = 1_000;

/** Which credentials call which version of the REST API. */
export function usageService({ pool }: Portal): ServiceImpl<typeof UsageService> {
  return {
    async listVersionUsage(_request, context) {
      const { session, today } = callOf(context);
      const found = await listVersionUsage(pool, { shopId: session.shopId, limit: MAX_ROWS + 1 });
      const rows = found.slice(0, MAX_ROWS).map((row) => ({ row, ...endOf(row, today) }));
      // The version that ends first is at the top; the order by last use stays within a version.
      const ends = (at: Date | undefined): number => at?.getTime() ?? Number.POSITIVE_INFINITY;
      rows.sort((a, b) => ends(a.endsAt) - ends(b.endsAt));
      return { usage: rows.map(usageView), more: found.length > MAX_ROWS };
    },
  };
}

interface Ending {
  /** The version that serves these requests today; empty when none does. */
  readonly served: string;
  readonly stage: string;
  readonly endsAt: Date | undefined;
}

function endOf({ requested }: VersionUsageRow, today: Date): Ending {
  const found = serve(requested === '' ? undefined : requested, today);
  const served = 'served' in found ? found.served : '';
  if (served === UNSTABLE) return { served, stage: UNSTABLE, endsAt: undefined };
  const version = releasedVersions(today).find((one) => one.version === served);
  return { served, stage: version?.stage ?? 'sunset', endsAt: version?.sunsetAt };
}

function usageView({
  row,
  served,
  stage,
  endsAt: at,
}: Ending & { readonly row: VersionUsageRow }): MessageInitShape<typeof VersionUsageSchema> {
  const endsAt = timestampOf(at);
  const { requested, credentialKind, credentialId, credentialState, description } = row;
  const { requests, lastAt } = row;
  return {
    requested,
    served,
    stage,
    credentialKind,
    credentialId,
    credentialState,
    description: description ?? '',
    ...(endsAt && { endsAt }),
    requests: String(requests),
    lastDay: timestampFromDate(new Date(`${lastAt.toISOString().slice(0, 10)}T00:00:00Z`)),
    lastOperation: row.lastOperation,
    lastAt: timestampFromDate(lastAt),
  };
}
