import type pg from 'pg';
import type { Logger } from '../../services/platform/log.ts';
import { createLeasedLimit } from './leased-limit.ts';
import type { Admission } from './rate-limits.ts';

/** Requests per minute to `/mcp`. The limits are high, because hosted assistants share few IP addresses. */
export const MCP_LIMITS = {
  /** For one signed-in user over all shops: every method, including `tools/call`. */
  requests: 600,
  /** For one IP address: requests refused for their token, `Host` or `Origin`. */
  refused: 1_200,
} as const;

export type McpSizes = Readonly<Record<keyof typeof MCP_LIMITS, number>>;

/** The limits of `/mcp` in addition to the interface's limit of tool calls. None of the methods rejects. */
export interface McpLimits {
  /** Counts one request of a signed-in user, before its body is read. */
  request(userId: bigint): Promise<Admission>;
  /** Counts the additional points of a body, in the same limit as the request. */
  body(userId: bigint, points: number): Promise<Admission>;
  /** Counts one refused request of an IP address. */
  refused(address: string): Promise<Admission>;
  /** Whether this process knows that the address had too many refused requests. Counts nothing. */
  isBlocked(address: string): boolean;
  /** Clears the state of this process; the shared counters are rows of `rate_limits`. */
  forget(): void;
}

export function createMcpLimits(o: {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly sizes?: Partial<McpSizes>;
  /** Maximum time that a request waits for the shared counter; see `createLeasedLimit`. */
  readonly timeoutMs?: number;
}): McpLimits {
  const sizes = { ...MCP_LIMITS, ...o.sizes };
  const limitOf = (name: string) =>
    createLeasedLimit(o.pool, o.logger, {
      name,
      ...(o.timeoutMs !== undefined && { timeoutMs: o.timeoutMs }),
    });
  const requests = limitOf('mcp-requests');
  const refused = limitOf('mcp-refused');
  return {
    request: (userId) => requests.take(String(userId), sizes.requests),
    // At most `requests - 1` points, because the request took one: a new window admits any allowed request.
    body: (userId, points) =>
      requests.take(String(userId), sizes.requests, Math.min(points, sizes.requests - 1)),
    refused: (address) => refused.take(address, sizes.refused),
    isBlocked: (address) => refused.isUsedUp(address),
    forget() {
      requests.forget();
      refused.forget();
    },
  };
}
