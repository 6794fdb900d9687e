import type { ConnectRouter } from '@connectrpc/connect';
import { SessionService } from '../../proto/gen/rms/portal/v1/session_pb.ts';
import type { Portal } from './create.ts';
import { sessionService } from './services/session.ts';

/** Registers the services of the portal. */
export function portalRoutes(router: ConnectRouter, portal: Portal): void {
  router.service(SessionService, sessionService(portal));
}
