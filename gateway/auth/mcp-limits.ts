import type pg from 'pg';
import { type Settings, wholeNumber } from '../../services/platform/process/config.ts';
import type { Logger } from '../../services/platform/telemetry/log.ts';
import { createLeasedLimit } from './leased-limit.ts';
import type { Admission } from './rate-limits.ts';

/**
 * Requests per minute to `/mcp`. The limits are high: a user may spend the tool calls of an hour in one minute, and hosted
 * assistants share few IP addresses.
 */
export const mcpShape = {
  MCP_REQUESTS_PER_MINUTE: wholeNumber(1, 1_000_000)
    .default(1_200)
    .describe('Requests to /mcp per minute of one signed-in user, over all shops and methods'),
  // Requests per minute that were rejected because of their token, `Host` or `Origin`.
  MCP_REFUSED_PER_MINUTE: wholeNumber(1, 1_000_000)
    .default(1_200)
    .describe('Rejected requests to /mcp per minute from one address; above it 429 instead of 401'),
};

/** The limits of `/mcp`, in addition to the interface's limit of tool calls. No method throws. */
export interface McpLimits {
  /** Counts one request of a signed-in user, before its body is read. */
  request(userId: bigint): Promise<Admission>;
  /** Counts the additional points of a body, in the same limit as requests. */
  body(userId: bigint, points: number): Promise<Admission>;
  /** Counts one rejected request from an IP address. */
  rejected(address: string): Promise<Admission>;
  /** Whether this process knows that the address had too many rejected requests. Counts nothing. */
  isBlocked(address: string): boolean;
  /** Clears the state of this process; the shared counters are rows of `rate_limits`. */
  reset(): void;
}

export function createMcpLimits(o: {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly sizes: Settings<typeof mcpShape>;
  /** Maximum time that a request waits for the shared counter; see `createLeasedLimit`. */
  readonly timeoutMs?: number | undefined;
}): McpLimits {
  const { pool, logger, timeoutMs } = o;
  const { MCP_REQUESTS_PER_MINUTE: perUser, MCP_REFUSED_PER_MINUTE: perAddress } = o.sizes;
  const requests = createLeasedLimit(pool, logger, { name: 'mcp-requests', timeoutMs });
  const rejected = createLeasedLimit(pool, logger, { name: 'mcp-refused', timeoutMs });
  return {
    request: (userId) => requests.take(String(userId), perUser),
    // At most `perUser - 1` points, because the request took one. So a new window admits every request.
    body: (userId, points) => requests.take(String(userId), perUser, Math.min(points, perUser - 1)),
    rejected: (address) => rejected.take(address, perAddress),
    isBlocked: (address) => rejected.isUsedUp(address),
    reset() {
      requests.reset();
      rejected.reset();
    },
  };
}
