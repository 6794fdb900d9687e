import type { DescMethod, DescService } from '@bufbuild/protobuf';
import { SessionService } from '../../proto/gen/rms/portal/v1/session_pb.ts';

/** All services of the portal. */
export const PORTAL_SERVICES: readonly DescService[] = [SessionService];

/** All methods of the portal. */
export const PORTAL_METHODS: readonly DescMethod[] = PORTAL_SERVICES.flatMap(
  ({ methods }) => methods,
);
