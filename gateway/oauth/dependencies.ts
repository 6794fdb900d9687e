import type pg from 'pg';
import type { Logger } from '../../services/platform/telemetry/log.ts';
import type { ClientIp } from '../auth/client-ip.ts';
import type { HourlyLimits } from '../auth/hourly-limits.ts';
import type { BodyBudget } from '../http/body-budget.ts';
import type { MailAdder } from '../mail/add-mails.ts';
import type { SupportedClients } from './clients/supported-clients.ts';
import type { SignInProvider } from './sign-in/upstream.ts';
import type { OAuthKeys } from './tokens/keys.ts';

export interface OAuthDependencies {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  /** The public base address; it is the issuer of all tokens. */
  readonly issuer: string;
  readonly limits: HourlyLimits;
  readonly bodies: BodyBudget;
  readonly clientIp: ClientIp;
  readonly clients: SupportedClients;
  /** Maximum lifetime of a grant. Days. */
  readonly grantDays: number;
  /** Mails to the owners; undefined when mails are off. */
  readonly mails: MailAdder | undefined;
  /** Additional origins that the identity provider redirects through. */
  readonly formOrigins: readonly string[];
  /** When absent, only the metadata is served. All other paths respond with 503. */
  readonly signIn?:
    | {
        readonly keys: OAuthKeys;
        /** The keys of tokens of partners' apps. */
        readonly partnerKeys: OAuthKeys;
        readonly provider: SignInProvider;
      }
    | undefined;
  /** Whether partners' apps get their tokens here, and not at another authorization server. */
  readonly servesPartners: boolean;
}
