import { randomBytes } from 'node:crypto';
import { roleOf, SCHEMAS } from '../../../services/platform/postgres/schemas.ts';
import { newKeyringText } from '../../../services/platform/security/keyring.ts';
import {
  calledBy,
  forServices,
  type ProcessName,
  SERVICE_NAMES,
  type ServiceName,
  targetVariable,
} from '../../../services/platform/services.ts';

/** Number of processes of a service. Two where a trial needs another replica. */
const REPLICAS = { ...forServices(() => 1), returns: 2, webhooks: 2 };

/** Maximum connections of each process, because all share one small server. */
const POOL_MAX = 6;

export interface Place {
  /** A name such as `returns-2`, the second process of returns. */
  readonly name: string;
  readonly service: ProcessName;
  readonly port: number;
  readonly metricsPort: number;
}

export interface SystemAddresses {
  /** The database URL of the migrator. */
  readonly databaseUrl: string;
  readonly brokers: readonly string[];
  /** Free ports, two for each process. */
  readonly ports: readonly number[];
}

/** The processes of the system. Each has two ports. */
export function placesOf(ports: readonly number[]): Place[] {
  const left = [...ports];
  const take = (): number => left.shift() ?? 0;
  const place = (service: Place['service'], nth: number): Place => ({
    name: `${service}-${nth}`,
    service,
    port: take(),
    metricsPort: take(),
  });
  const services = SERVICE_NAMES.flatMap((name) =>
    Array.from({ length: REPLICAS[name] }, (_, at) => place(name, at + 1)),
  );
  return [...services, place('gateway', 1)];
}

/** Number of ports that {@link placesOf} needs: two for each replica, and two for the gateway. */
export const PORT_COUNT = 2 * (Object.values(REPLICAS).reduce((sum, n) => sum + n, 0) + 1);

/** Secrets of one run. */
export interface Secrets {
  readonly serviceToken: string;
  readonly databasePassword: string;
  readonly keyring: string;
  readonly eventKeyring: string;
}

export function freshSecrets(): Secrets {
  return {
    serviceToken: randomBytes(24).toString('hex'),
    databasePassword: randomBytes(16).toString('hex'),
    keyring: newKeyringText('faults'),
    eventKeyring: newKeyringText('faults'),
  };
}

export function passwordsFor(secrets: Secrets): Record<string, string> {
  return Object.fromEntries(SCHEMAS.map(({ name }) => [name, secrets.databasePassword]));
}

/** The gRPC target of all processes of a service. */
export function targetOf(places: readonly Place[], service: ServiceName): string {
  const all = places.filter((one) => one.service === service);
  return `ipv4:${all.map(({ port }) => `127.0.0.1:${port}`).join(',')}`;
}

/** The whole environment of a process, like in its manifest. */
export function environmentOf(
  place: Place,
  o: { places: readonly Place[]; surroundings: SystemAddresses; secrets: Secrets },
): Record<string, string> {
  const { places, surroundings, secrets } = o;
  const database = new URL(surroundings.databaseUrl);
  database.username = roleOf(place.service);
  database.password = secrets.databasePassword;
  const common = {
    NODE_ENV: 'test',
    LOG_LEVEL: 'info',
    HOST: '127.0.0.1',
    PORT: String(place.port),
    METRICS_PORT: String(place.metricsPort),
    DATABASE_URL: database.href,
    DATABASE_POOL_MAX: String(POOL_MAX),
    SERVICE_TOKEN: secrets.serviceToken,
    KAFKA_BROKERS: surroundings.brokers.join(','),
    EVENT_KEYRING: secrets.eventKeyring,
    ...Object.fromEntries(
      calledBy(place.service).map((name) => [targetVariable(name), targetOf(places, name)]),
    ),
  };
  switch (place.service) {
    case 'gateway':
      return {
        ...common,
        REST_PER_MINUTE: '1000000',
        SHOP_MIB_PER_DAY: '1000000',
        DOCS_ENABLED: 'false',
      };
    case 'returns':
      return {
        ...common,
        COMMERCE_KEYRING: secrets.keyring,
        COMMERCE_ALLOWED_ORIGINS: 'http://127.0.0.1:*',
      };
    case 'webhooks':
      return {
        ...common,
        WEBHOOK_KEYRING: secrets.keyring,
        WEBHOOK_ALLOWED_ORIGINS: 'http://127.0.0.1:*',
      };
    default:
      return common;
  }
}

/** The main file of a process. */
export function mainOf({ service }: Place): string {
  return service === 'gateway' ? 'gateway/main.ts' : `services/${service}/main.ts`;
}
