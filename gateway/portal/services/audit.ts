import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { ServiceImpl } from '@connectrpc/connect';
import type {
  AuditEntrySchema,
  AuditFilter as AuditFilterMessage,
  AuditService,
} from '../../../proto/gen/rms/portal/v1/audit_pb.ts';
import { type AuditFilter, type LoggedEntry, listAudit } from '../../tenancy/audit-list.ts';
import { auditCsv } from '../audit-csv.ts';
import { callOf, type PortalCall } from '../call.ts';
import type { Portal } from '../create.ts';
import { idOf, pageSizeOf, timeOf, upTo } from '../fields.ts';

/** Maximum number of entries in one call of an export. */
const EXPORT_PAGE = 5_000;
/** As in the table. Characters. */
const MAX_ACTOR = 200;
const MAX_ACTION = 100;

/** The shop's audit log. */
export function auditService({ pool }: Portal): ServiceImpl<typeof AuditService> {
  const page = async (filter: AuditFilter) => {
    const found = await listAudit(pool, { ...filter, limit: filter.limit + 1 });
    const entries = found.slice(0, filter.limit);
    const isLast = found.length <= filter.limit;
    return { entries, nextCursor: isLast ? '' : String(entries.at(-1)?.id) };
  };
  return {
    async listAuditEntries({ filter, pageSize, cursor }, context) {
      const limit = pageSizeOf(pageSize);
      const { entries, nextCursor } = await page(
        filterOf(callOf(context), { filter, cursor, limit }),
      );
      return { entries: entries.map(entryView), nextCursor };
    },

    async exportAuditEntries({ filter, cursor }, context) {
      const o = { filter, cursor, limit: EXPORT_PAGE };
      const { entries, nextCursor } = await page(filterOf(callOf(context), o));
      return { csv: auditCsv(entries, { withHeader: cursor === '' }), nextCursor };
    },
  };
}

function filterOf(
  { session }: PortalCall,
  o: {
    readonly filter: AuditFilterMessage | undefined;
    readonly cursor: string;
    readonly limit: number;
  },
): AuditFilter {
  const { from, to, actorId = '', action = '' } = o.filter ?? {};
  const since = timeOf('filter.from', from);
  const until = timeOf('filter.to', to);
  return {
    shopId: session.shopId,
    limit: o.limit,
    ...(since && { since }),
    ...(until && { until }),
    ...(actorId !== '' && { actor: upTo('filter.actor_id', actorId, MAX_ACTOR) }),
    ...(action !== '' && { action: upTo('filter.action', action, MAX_ACTION) }),
    ...(o.cursor !== '' && { before: beforeOf(o.cursor) }),
  };
}

function beforeOf(cursor: string): bigint {
  return idOf(/^\d{1,16}$/.test(cursor) ? cursor : '0', 'entry in its audit log');
}

function entryView(entry: LoggedEntry): MessageInitShape<typeof AuditEntrySchema> {
  const { id, at, actorKind, actorId, actorName, source, requestId, action, subject, detail } =
    entry;
  return {
    id: String(id),
    at: timestampFromDate(at),
    by: { kind: actorKind, id: actorId, name: actorName },
    source: source ?? '',
    requestId: requestId ?? '',
    ...{ action, subject, detail: JSON.stringify(detail) },
  };
}
