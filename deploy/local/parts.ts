import type pg from 'pg';
import type { Services } from '../../gateway/services.ts';
import type { RunningGateway } from '../../gateway/start.ts';
import type { Database } from './database.ts';
import type { SeededShop } from './demo/shops.ts';
import type { LocalBus } from './event-bus.ts';
import type { MemoryFile } from './memory.ts';
import type { StartOptions } from './options.ts';
import type { LocalServices } from './services.ts';
import type { TappedBus } from './tapped-bus.ts';

/** External systems for the stack, from the environment. */
export interface ExternalSystems {
  readonly databaseUrl: string | undefined;
  readonly kafkaBrokers: readonly string[];
  /** An OpenID issuer to use instead of the bundled identity provider. */
  readonly oidcIssuer: string | undefined;
  /** The gateway's client at that issuer; without it assistants cannot sign in. */
  readonly oidcClient: { readonly clientId: string; readonly clientSecret: string } | undefined;
  readonly logLevel: string;
}

/** A started part that can be stopped. */
export interface Stopper {
  stop(): Promise<void>;
}

/** The common input for starting the parts of a stack. */
export interface Plan {
  readonly options: StartOptions;
  readonly externalSystems: ExternalSystems;
  readonly folder: string;
  readonly memory: MemoryFile;
  readonly baseUrl: string;
  readonly authUrl: string;
  /** URL of the keys of `authUrl`. */
  readonly jwksUrl: string;
  readonly startedAt: Date;
  /** The parts to stop at the end, in reverse order. */
  readonly stoppers: Stopper[];
}

/** The parts behind the gateway: database, bus and services. */
export interface Backend {
  readonly database: Database;
  readonly local: LocalBus;
  readonly tapped: TappedBus;
  readonly services: LocalServices;
}

/** The gateway, and its additional listeners by the date of their version calendar. */
export interface Front {
  readonly gateway: RunningGateway;
  readonly baseUrlAt: Readonly<Record<string, string>>;
}

/** The local stack's own access to the system: RPC clients, and pools for tenancy, commerce ledger and outbox. */
export interface Access {
  readonly clients: Services;
  readonly pools: Readonly<Record<'gateway' | 'commerce' | 'migrator', pg.Pool>>;
}

export interface Running extends Backend, Front, Access {
  /** Empty without the demo. */
  readonly shops: readonly SeededShop[];
}
