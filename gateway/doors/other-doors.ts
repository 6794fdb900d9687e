import type { CartsService } from '../../proto/gen/rms/carts/v1/carts_pb.ts';
import type { DestinationsService } from '../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import type { DispositionsService } from '../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import type { EventsService } from '../../proto/gen/rms/events/v1/events_service_pb.ts';
import type { FraudService } from '../../proto/gen/rms/fraud/v1/fraud_pb.ts';
import type { DoorsOf } from './door.ts';

export const DISPOSITIONS_DOORS: DoorsOf<typeof DispositionsService> = {
  assess: { rest: ['assessDispositions'], mcp: ['record_dispositions'], admin: 'acting' },
  gradeItems: { rest: ['gradeItems'], mcp: 'none', admin: 'acting' },
  getDispositions: { rest: 'covered', mcp: 'covered', admin: 'reading' },
  getSettings: { rest: 'tuning', mcp: 'tuning', admin: 'tuning' },
  updateSettings: { rest: 'tuning', mcp: 'tuning', admin: 'tuning' },
};

export const DESTINATIONS_DOORS: DoorsOf<typeof DestinationsService> = {
  createDestination: { rest: 'member', mcp: 'member', admin: ['destination create'] },
  updateDestination: { rest: ['updateDestination'], mcp: ['update_destination'], admin: 'acting' },
  linkLocation: { rest: 'internal', mcp: 'internal', admin: 'internal' },
  getDestination: { rest: ['getDestination'], mcp: 'covered', admin: 'covered' },
  listDestinations: {
    rest: ['listDestinations'],
    mcp: ['list_destinations'],
    admin: ['destination list'],
  },
};

export const FRAUD_DOORS: DoorsOf<typeof FraudService> = {
  createReport: { rest: ['createFraudReport'], mcp: ['create_fraud_report'], admin: 'acting' },
  getReport: { rest: 'none', mcp: ['get_fraud_report'], admin: 'reading' },
  listCategories: { rest: 'covered', mcp: ['list_fraud_categories'], admin: 'reading' },
};

export const CARTS_DOORS: DoorsOf<typeof CartsService> = {
  createCart: { rest: ['createCart'], mcp: ['create_cart'], admin: 'acting' },
  getCart: { rest: ['getCart'], mcp: 'secret', admin: 'reading' },
};

export const EVENTS_DOORS: DoorsOf<typeof EventsService> = {
  listPublished: { rest: 'internal', mcp: 'internal', admin: 'internal' },
  publishAgain: { rest: 'internal', mcp: 'internal', admin: 'internal' },
};
