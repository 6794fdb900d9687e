import { freePorts } from '../../deploy/local/free-ports.ts';
import type { ServiceTargets } from '../../gateway/services.ts';
import { newKeyringText } from '../../services/platform/security/keyring.ts';
import {
  forServices,
  forTargets,
  PROCESS_NAMES,
  type ProcessName,
} from '../../services/platform/services.ts';

/** The ports of each process. */
export interface Places {
  readonly targets: ServiceTargets;
  /** Ports of the service and of its metrics. */
  ports(name: ProcessName): readonly [number, number];
  /** `HEALTH_PORT` of the gateway. */
  readonly gatewayHealth: number;
}

/** Chooses free ports for all processes. */
export async function placesOf(): Promise<Places> {
  const free = await freePorts(2 * PROCESS_NAMES.length + 1);
  const ports = (name: ProcessName): [number, number] => {
    const at = 2 * PROCESS_NAMES.indexOf(name);
    return [free[at] ?? 0, free[at + 1] ?? 0];
  };
  return {
    ports,
    gatewayHealth: free.at(-1) ?? 0,
    targets: forServices((name) => `127.0.0.1:${ports(name)[0]}`),
  };
}

export interface Environment {
  readonly places: Places;
  readonly token: string;
  readonly brokers: string;
  readonly oauthKeyring: string;
  /** The certificate authority of receivers over TLS. */
  readonly authorityFile: string;
  readonly urlOf: (schema: string) => string;
}

/** The environment of each process: required variables, and limits that the measurement does not reach. */
export function environmentsOf(o: Environment) {
  const { places, token, brokers, oauthKeyring, urlOf } = o;
  const common = {
    ...forTargets((name) => places.targets[name]),
    KAFKA_BROKERS: brokers,
    SERVICE_TOKEN: token,
    LOG_LEVEL: 'warn',
    EVENT_KEYRING: newKeyringText(),
    WEBHOOK_KEYRING: newKeyringText(),
    WEBHOOK_ALLOWED_ORIGINS: 'http://127.0.0.1:*,https://127.0.0.1:*',
    NODE_EXTRA_CA_CERTS: o.authorityFile,
    REST_PER_MINUTE: '1000000',
    SHOP_MIB_PER_DAY: '1000000',
    HOST: '127.0.0.1',
  };
  // No user signs in. The bench creates tokens itself.
  const gateway = {
    HEALTH_PORT: String(places.gatewayHealth),
    // The edge of the row `edge`.
    TRUSTED_PROXIES: '127.0.0.1',
    PUBLIC_BASE_URL: `http://127.0.0.1:${places.ports('gateway')[0]}`,
    SIGN_IN_ISSUER: 'http://127.0.0.1:1',
    SIGN_IN_CLIENT_ID: 'bench',
    SIGN_IN_CLIENT_SECRET: 'bench',
    OAUTH_KEYRING: oauthKeyring,
    MCP_CALLS_PER_HOUR: '1000000',
    MCP_REQUESTS_PER_MINUTE: '1000000',
  };
  return (name: ProcessName): Record<string, string> => {
    const [port, metricsPort] = places.ports(name);
    return {
      ...common,
      ...(name === 'gateway' && gateway),
      PORT: String(port),
      METRICS_PORT: String(metricsPort),
      DATABASE_URL: urlOf(name),
    };
  };
}
