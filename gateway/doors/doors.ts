import type { DescService } from '@bufbuild/protobuf';
import { CartsService } from '../../proto/gen/rms/carts/v1/carts_pb.ts';
import { CommerceService } from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { DestinationsService } from '../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { DispositionsService } from '../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import { EventsService } from '../../proto/gen/rms/events/v1/events_service_pb.ts';
import { FraudService } from '../../proto/gen/rms/fraud/v1/fraud_pb.ts';
import { ReturnsService } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { WebhooksService } from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import type { Doors } from './door.ts';
import {
  CARTS_DOORS,
  DESTINATIONS_DOORS,
  DISPOSITIONS_DOORS,
  EVENTS_DOORS,
  FRAUD_DOORS,
} from './other-doors.ts';
import { COMMERCE_DOORS, RETURNS_DOORS } from './returns-doors.ts';
import { WEBHOOKS_DOORS } from './webhooks-doors.ts';

/** The doors of each RPC of the six services. CommerceService is a part of returns, EventsService of each service. */
export const DOORS: readonly {
  readonly service: DescService;
  readonly rpcs: Readonly<Record<string, Doors>>;
}[] = [
  { service: ReturnsService, rpcs: RETURNS_DOORS },
  { service: CommerceService, rpcs: COMMERCE_DOORS },
  { service: DispositionsService, rpcs: DISPOSITIONS_DOORS },
  { service: DestinationsService, rpcs: DESTINATIONS_DOORS },
  { service: FraudService, rpcs: FRAUD_DOORS },
  { service: CartsService, rpcs: CARTS_DOORS },
  { service: WebhooksService, rpcs: WEBHOOKS_DOORS },
  { service: EventsService, rpcs: EVENTS_DOORS },
];

/** Operations of the gateway itself: of its own tables, without an RPC. */
export const OWN_DOORS: readonly { readonly what: string; readonly doors: Doors }[] = [
  {
    what: 'Connected assistants',
    doors: {
      rest: 'member',
      mcp: ['list_assistants', 'disconnect_assistant'],
      admin: ['grants list', 'grants revoke'],
    },
  },
  {
    what: 'API keys',
    doors: { rest: 'secret', mcp: 'secret', admin: ['key create', 'key revoke', 'key list'] },
  },
  {
    what: 'Members of a shop',
    doors: {
      rest: 'member',
      mcp: 'member',
      admin: ['member add', 'member remove', 'member unlink', 'member list'],
    },
  },
  {
    what: 'Installed partner apps',
    doors: {
      rest: 'member',
      mcp: 'member',
      admin: ['app install', 'app remove', 'app list'],
    },
  },
  { what: 'Audit log', doors: { rest: 'none', mcp: 'none', admin: ['audit list'] } },
  { what: 'Shops', doors: { rest: 'operator', mcp: ['get_shop_context'], admin: ['shop list'] } },
  {
    what: 'Keys that sign the tokens of assistants',
    doors: {
      rest: 'operator',
      mcp: 'operator',
      admin: ['oauth-key rotate', 'oauth-key list'],
    },
  },
];
