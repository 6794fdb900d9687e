import { useQuery } from '@connectrpc/connect-query';
import type { Delivery } from '../../../../proto/gen/rms/portal/v1/deliveries_pb.ts';
import { PayloadVersionService } from '../../../../proto/gen/rms/portal/v1/payload_version_pb.ts';
import { useSession } from '../../session/session.tsx';
import { isBeingSent, TEST_REFRESH_MS } from '../deliveries/test-delivery-result.tsx';

/** The last tests in one version. */
export interface VersionTests {
  /** The last test by the id of its webhook; undefined while it is loaded, and when that failed. */
  readonly byWebhook: ReadonlyMap<string, Delivery> | undefined;
  readonly isFailed: boolean;
}

/** The last test of each webhook in a version, read again until each was tried. @param version undefined for none. */
export function useVersionTests(version: string | undefined): VersionTests {
  const { listVersionTests } = PayloadVersionService.method;
  const mayList = useSession().can(listVersionTests);
  const { data, error } = useQuery(
    listVersionTests,
    { version: version ?? '' },
    {
      enabled: mayList && version !== undefined,
      refetchInterval: ({ state }) =>
        state.data?.deliveries.some(isBeingSent) ? TEST_REFRESH_MS : false,
    },
  );
  return {
    byWebhook: data && new Map(data.deliveries.map((one) => [one.webhookId, one])),
    isFailed: error !== null,
  };
}
