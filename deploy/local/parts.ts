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

/** Where the stack meets what exists already; from the environment. */
export interface Surroundings {
  readonly databaseUrl: string | undefined;
  readonly kafkaBrokers: readonly string[];
  /** An OpenID issuer to take instead of the bundled one. */
  readonly oidcIssuer: string | undefined;
  /** How the gateway is known at that issuer; without it assistants cannot sign in. */
  readonly oidcClient: { readonly clientId: string; readonly clientSecret: string } | undefined;
  readonly logLevel: string;
}

/** Something that was started and will be stopped. */
export interface Stopper {
  stop(): Promise<void>;
}

/** What every part of a stack is started with. */
export interface Plan {
  readonly options: StartOptions;
  readonly surroundings: Surroundings;
  readonly folder: string;
  readonly memory: MemoryFile;
  readonly baseUrl: string;
  readonly authUrl: string;
  /** Where the keys of `authUrl` are. */
  readonly jwksUrl: string;
  readonly startedAt: Date;
  /** What to stop at the end, the last one first. */
  readonly stoppers: Stopper[];
}

/** Database, bus and services: what lies behind the gateway. */
export interface Backend {
  readonly database: Database;
  readonly local: LocalBus;
  readonly tapped: TappedBus;
  readonly services: LocalServices;
}

/** The gateway, and further listeners of it by the day at which their version calendar stands. */
export interface Front {
  readonly gateway: RunningGateway;
  readonly baseUrlAt: Readonly<Record<string, string>>;
}

/** The local stack's own ways into the system: RPCs, and pools for tenancy, commerce ledger and outbox. */
export interface Access {
  readonly clients: Services;
  readonly pools: Readonly<Record<'gateway' | 'commerce' | 'migrator', pg.Pool>>;
}

/** A stack once everything is up. */
export interface Running extends Backend, Front, Access {
  /** Empty without the demo. */
  readonly shops: readonly SeededShop[];
}
