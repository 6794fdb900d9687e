import type { ConnectRouter } from '@connectrpc/connect';
import { ApiKeysService } from '../../proto/gen/rms/portal/v1/api_keys_pb.ts';
import { AppsService } from '../../proto/gen/rms/portal/v1/apps_pb.ts';
import { AssistantsService } from '../../proto/gen/rms/portal/v1/assistants_pb.ts';
import { AuditService } from '../../proto/gen/rms/portal/v1/audit_pb.ts';
import { DestinationsService } from '../../proto/gen/rms/portal/v1/destinations_pb.ts';
import { PayloadVersionService } from '../../proto/gen/rms/portal/v1/payload_version_pb.ts';
import { ReturnsService } from '../../proto/gen/rms/portal/v1/returns_pb.ts';
import { SessionService } from '../../proto/gen/rms/portal/v1/session_pb.ts';
import { TeamService } from '../../proto/gen/rms/portal/v1/team_pb.ts';
import { UsageService } from '../../proto/gen/rms/portal/v1/usage_pb.ts';
import { WebhooksService } from '../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import type { Portal } from './create.ts';
import { apiKeysService } from './services/api-keys.ts';
import { appsService } from './services/apps.ts';
import { assistantsService } from './services/assistants.ts';
import { auditService } from './services/audit.ts';
import { destinationsService } from './services/destinations.ts';
import { payloadVersionService } from './services/payload-version.ts';
import { returnsService } from './services/returns.ts';
import { sessionService } from './services/session.ts';
import { teamService } from './services/team.ts';
import { usageService } from './services/usage.ts';
import { webhooksService } from './services/webhooks.ts';

/** Registers the services of the portal. `all-services.ts` lists the same. */
export function portalRoutes(router: ConnectRouter, portal: Portal): void {
  router.service(SessionService, sessionService(portal));
  router.service(WebhooksService, webhooksService());
  router.service(PayloadVersionService, payloadVersionService());
  router.service(ReturnsService, returnsService());
  router.service(DestinationsService, destinationsService());
  router.service(ApiKeysService, apiKeysService(portal));
  router.service(UsageService, usageService(portal));
  router.service(AppsService, appsService(portal));
  router.service(AssistantsService, assistantsService(portal));
  router.service(TeamService, teamService(portal));
  router.service(AuditService, auditService(portal));
}
