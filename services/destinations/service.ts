import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { ConnectRouter } from '@connectrpc/connect';
import type pg from 'pg';
import {
  type DestinationSchema,
  DestinationsService,
  LinkLocationRequestSchema,
  UpdateDestinationRequestSchema,
} from '../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { keyUseOf } from '../platform/idempotency.ts';
import { parseInput } from '../platform/input.ts';
import { changeDestination, createDestination } from './change.ts';
import {
  applyEdit,
  type Destination,
  destinationEdit,
  destinationNotFound,
  locationLink,
  newDestination,
} from './destination.ts';
import { findDestination, listDestinations } from './store.ts';

export function destinationRoutes(pool: pg.Pool): (router: ConnectRouter) => void {
  return (router) => {
    router.service(DestinationsService, {
      async createDestination(request) {
        const created = await createDestination(pool, parseInput(newDestination, request));
        return { destination: toMessage(created) };
      },

      async updateDestination(request) {
        const edit = parseInput(destinationEdit, request);
        const { destination, previous } = await changeDestination(pool, edit, {
          id: edit.destinationId,
          use: keyUseOf('UpdateDestination', UpdateDestinationRequestSchema, request),
          change: (current) => applyEdit(current, edit),
        });
        return {
          destination: toMessage(destination),
          ...(previous && { previous: toMessage(previous) }),
        };
      },

      async linkLocation(request) {
        const link = parseInput(locationLink, request);
        const { destination } = await changeDestination(pool, link, {
          id: link.destinationId,
          use: keyUseOf('LinkLocation', LinkLocationRequestSchema, request),
          change: ({ id, updatedAt, ...state }) => ({
            ...state,
            providerLocationId: link.providerLocationId,
          }),
        });
        return { destination: toMessage(destination) };
      },

      async getDestination({ shopId, destinationId }) {
        const found = await findDestination(pool, shopId, destinationId);
        if (!found) throw destinationNotFound(destinationId);
        return { destination: toMessage(found) };
      },

      async listDestinations({ shopId }) {
        const destinations = await listDestinations(pool, shopId);
        return { destinations: destinations.map(toMessage) };
      },
    });
  };
}

function toMessage(destination: Destination): MessageInitShape<typeof DestinationSchema> {
  return {
    ...destination,
    providerLocationId: destination.providerLocationId ?? 0n,
    updatedAt: timestampFromDate(destination.updatedAt),
  };
}
