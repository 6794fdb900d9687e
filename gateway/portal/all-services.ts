import type { DescMethod, DescService } from '@bufbuild/protobuf';
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

/** All services of the portal. */
export const PORTAL_SERVICES: readonly DescService[] = [
  SessionService,
  WebhooksService,
  PayloadVersionService,
  ReturnsService,
  DestinationsService,
  ApiKeysService,
  AppsService,
  UsageService,
  AssistantsService,
  TeamService,
  AuditService,
];

/** All methods of the portal. */
export const PORTAL_METHODS: readonly DescMethod[] = PORTAL_SERVICES.flatMap(
  ({ methods }) => methods,
);
