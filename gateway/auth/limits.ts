import type pg from 'pg';
import type { Logger } from '../../services/platform/log.ts';
import type { Telemetry } from '../../services/platform/telemetry.ts';
import type { GatewayOptions } from '../options.ts';
import { createByteQuota, SHOP_MIB_PER_DAY } from './byte-quota.ts';
import type { ClientIp } from './client-ip.ts';
import { createHourlyLimits } from './hourly-limits.ts';
import { createLeasedLimit } from './leased-limit.ts';
import { createMcpLimits } from './mcp-limits.ts';
import { createRateLimit } from './rate-limits.ts';

type LimitSizes = Pick<
  GatewayOptions,
  'perHour' | 'mcpPerMinute' | 'failedCredentialsPerMinute' | 'shopMibPerDay' | 'limitTimeoutMs'
>;

const FAILED_CREDENTIALS_WINDOW_S = 60;

/** Creates all limits of a gateway, with the sizes in its options. */
export function createLimits(
  o: LimitSizes,
  {
    pool,
    logger,
    clientIp,
    telemetry,
  }: { pool: pg.Pool; logger: Logger; clientIp: ClientIp; telemetry: Telemetry },
) {
  const timeout = o.limitTimeoutMs !== undefined && { timeoutMs: o.limitTimeoutMs };
  const restLimit = createLeasedLimit(pool, logger, { ...timeout });
  const { meter } = telemetry;
  const mibPerDay = o.shopMibPerDay ?? SHOP_MIB_PER_DAY;
  const byteQuota = createByteQuota({ pool, logger, meter, mibPerDay, ...timeout });
  const mcpLimits = createMcpLimits({
    pool,
    logger,
    ...(o.mcpPerMinute && { sizes: o.mcpPerMinute }),
    ...timeout,
  });
  const hourlyLimits = createHourlyLimits({
    pool,
    clientIp,
    ...(o.perHour && { sizes: o.perHour }),
  });
  const failedCredentials = createRateLimit({
    pool,
    name: 'failed-credentials',
    points: o.failedCredentialsPerMinute ?? 60,
    windowS: FAILED_CREDENTIALS_WINDOW_S,
  });
  return {
    restLimit,
    failedCredentials,
    hourlyLimits,
    mcpLimits,
    byteQuota,
    async reset(): Promise<void> {
      await pool.query('delete from rate_limits');
      restLimit.forget();
      failedCredentials.forget();
      hourlyLimits.forget();
      mcpLimits.forget();
      byteQuota.forget();
    },
  };
}
