import type { DescMethodUnary } from '@bufbuild/protobuf';
import type { ConnectRouter } from '@connectrpc/connect';
import { ApiKeysService } from '../../proto/gen/rms/portal/v1/api_keys_pb.ts';
import { AppsService } from '../../proto/gen/rms/portal/v1/apps_pb.ts';
import { AssistantsService } from '../../proto/gen/rms/portal/v1/assistants_pb.ts';
import { AuditService } from '../../proto/gen/rms/portal/v1/audit_pb.ts';
import { PayloadsService } from '../../proto/gen/rms/portal/v1/payloads_pb.ts';
import { SessionService } from '../../proto/gen/rms/portal/v1/session_pb.ts';
import { TeamService } from '../../proto/gen/rms/portal/v1/team_pb.ts';
import { UsageService } from '../../proto/gen/rms/portal/v1/usage_pb.ts';
import type { Portal } from './create.ts';
import { forwarded } from './forward.ts';
import { PORTAL_METHODS } from './methods.ts';
import { apiKeysService } from './services/api-keys.ts';
import { appsService } from './services/apps.ts';
import { assistantsService } from './services/assistants.ts';
import { auditService } from './services/audit.ts';
import { payloadsService } from './services/payloads.ts';
import { sessionService } from './services/session.ts';
import { teamService } from './services/team.ts';
import { usageService } from './services/usage.ts';

/** The package of what no service has. */
const OWN_PACKAGE = 'rms.portal.v1';

/** Registers the methods of the portal: its own, and those that the page calls as a service has them. */
export function portalRoutes(router: ConnectRouter, portal: Portal): void {
  router.service(SessionService, sessionService(portal));
  router.service(PayloadsService, payloadsService());
  router.service(ApiKeysService, apiKeysService(portal));
  router.service(UsageService, usageService(portal));
  router.service(AppsService, appsService(portal));
  router.service(AssistantsService, assistantsService(portal));
  router.service(TeamService, teamService(portal));
  router.service(AuditService, auditService(portal));
  for (const { method, ...o } of PORTAL_METHODS) {
    if (method.methodKind === 'unary' && method.parent.file.proto.package !== OWN_PACKAGE) {
      router.rpc(method as DescMethodUnary, forwarded(method, o));
    }
  }
}
