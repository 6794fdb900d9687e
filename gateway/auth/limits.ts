import type pg from 'pg';
import type { Logger } from '../../services/platform/log.ts';
import type { Telemetry } from '../../services/platform/telemetry.ts';
import type { GatewayConfig } from '../config.ts';
import { createByteQuota } from './byte-quota.ts';
import type { ClientIp } from './client-ip.ts';
import { createHourlyLimits } from './hourly-limits.ts';
import { createLeasedLimit } from './leased-limit.ts';
import { createMcpLimits } from './mcp-limits.ts';
import { createRateLimit } from './rate-limits.ts';

const FAILED_CREDENTIALS_WINDOW_S = 60;

/** Creates all limits of a gateway, with the sizes in its options. */
export function createLimits(
  o: GatewayConfig & {
    /** Maximum time that a request waits for a shared counter; see `createLeasedLimit`. Milliseconds. */
    readonly limitTimeoutMs?: number;
  },
  deps: { pool: pg.Pool; logger: Logger; clientIp: ClientIp; telemetry: Telemetry },
) {
  const { pool, logger, clientIp } = deps;
  const { meter } = deps.telemetry;
  const timeoutMs = o.limitTimeoutMs;
  // Requests per minute of an API key or an app: the key's own number, or REST_PER_MINUTE (`config.ts`).
  // `rest/serve-operation.ts` counts them; `rateLimited` makes the response to a request above the limit.
  const restLimit = createLeasedLimit(pool, logger, { timeoutMs });
  const mibPerDay = o.SHOP_MIB_PER_DAY;
  const byteQuota = createByteQuota({ pool, logger, meter, mibPerDay, timeoutMs });
  const mcpLimits = createMcpLimits({ pool, logger, sizes: o, timeoutMs });
  // Calls per minute of one user of the portal.
  const portalCalls = createLeasedLimit(pool, logger, { name: 'portal-calls', timeoutMs });
  const hourlyLimits = createHourlyLimits({ pool, clientIp, sizes: o });
  const failedCredentials = createRateLimit({
    pool,
    name: 'failed-credentials',
    points: o.FAILED_CREDENTIALS_PER_MINUTE,
    windowS: FAILED_CREDENTIALS_WINDOW_S,
  });
  return {
    restLimit,
    failedCredentials,
    hourlyLimits,
    mcpLimits,
    portalCalls,
    byteQuota,
    async reset(): Promise<void> {
      await pool.query('delete from rate_limits');
      restLimit.reset();
      failedCredentials.reset();
      hourlyLimits.reset();
      mcpLimits.reset();
      portalCalls.reset();
      byteQuota.reset();
    },
  };
}
