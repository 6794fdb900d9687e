import type { DestinationStream } from 'pino';
import type { ServiceIdentity } from '../services/platform/identity.ts';
import type { HourlySizes } from './auth/hourly-limits.ts';
import type { McpSizes } from './auth/mcp-limits.ts';
import type { PartnerOAuth } from './auth/partner-tokens.ts';
import type { BodyBudgetSizes } from './http/body-budget.ts';
import type { HttpLimits } from './http/server.ts';
import type { OAuthOptions } from './oauth/config.ts';
import type { ServiceTargets } from './services.ts';

export interface GatewayOptions extends OAuthOptions {
  readonly host?: string;
  /** TCP port; 0 takes a free one. */
  readonly port: number;
  readonly metricsPort: number;
  readonly databaseUrl: string;
  readonly poolMax?: number;
  readonly targets: ServiceTargets;
  readonly identity: ServiceIdentity;
  /** Public address of the API; the bound address when absent. */
  readonly publicUrl?: string;
  /** Fixed date for the version calendar; real time when absent. */
  readonly calendar?: Date;
  /** 300 when absent. */
  readonly restPerMinute?: number;
  /** MiB of request bodies after decompression, per shop and UTC day; 2,048 when absent. */
  readonly shopMibPerDay?: number;
  /** Maximum time that a request waits for a shared counter; see `createLeasedLimit`. Milliseconds. */
  readonly limitTimeoutMs?: number;
  /** In-flight requests of the cheapest operation; see `createInFlight`. */
  readonly maxRequestsInFlight?: number;
  /** 60 when absent. */
  readonly failedCredentialsPerMinute?: number;
  /** Sign-in requests per hour and address, tool calls per hour and user; the interface's limits when absent. */
  readonly perHour?: Partial<HourlySizes>;
  /** Requests to `/mcp` per minute; `MCP_LIMITS` when absent. */
  readonly mcpPerMinute?: Partial<McpSizes>;
  /** Addresses or CIDR ranges of our own proxies. */
  readonly trustedProxies?: readonly string[];
  /** Memory budget of request bodies; `BODY_BUDGET` when absent. */
  readonly bodyBudget?: Partial<BodyBudgetSizes>;
  /** Memory budget of responses that clients have not read yet; `ANSWER_BUDGET` when absent. */
  readonly answerBudget?: Partial<BodyBudgetSizes>;
  /** Limits of the HTTP server; its defaults when absent. */
  readonly httpLimits?: Partial<HttpLimits>;
  /** Without it every partner's token is rejected. */
  readonly partnerOAuth?: PartnerOAuth;
  /** Additional origins of pages that may call `/mcp` from a browser. */
  readonly mcpAllowedOrigins?: readonly string[];
  /** Whether `/docs` is served; true when absent. */
  readonly docs?: boolean;
  readonly logLevel?: string;
  readonly logPretty?: boolean;
  /** Destination of log lines; standard output when absent. */
  readonly logDestination?: DestinationStream;
  readonly otlpEndpoint?: string;
  /** At a stop, the gateway reports itself as unready for this time before it refuses requests. Milliseconds. */
  readonly shutdownDelayMs?: number;
}
