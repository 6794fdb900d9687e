import { fileURLToPath } from 'node:url';
import type { ServiceTargets } from '../../gateway/services.ts';
import { type ProcessInCgroup, startInCgroup } from './process-in-cgroup.ts';

const MAIN = fileURLToPath(new URL('../../gateway/main.ts', import.meta.url));

/** Starts a gateway in a separate process, with the memory limit of its manifest. */
export function startGatewayInCgroup(o: {
  readonly databaseUrl: string;
  readonly targets: ServiceTargets;
  readonly serviceToken: string;
  readonly env?: Readonly<Record<string, string>>;
}): Promise<ProcessInCgroup> {
  const named = Object.entries(o.targets).map(([name, at]) => [`${name.toUpperCase()}_TARGET`, at]);
  return startInCgroup(MAIN, {
    ...Object.fromEntries(named),
    DATABASE_URL: o.databaseUrl,
    SERVICE_TOKEN: o.serviceToken,
    PORT: '0',
    METRICS_PORT: '0',
    LOG_LEVEL: 'info',
    TRUSTED_PROXIES: 'none',
    ...o.env,
  });
}
