/** Why a request was not let in: for the access line, never for the caller. */
export type RefusalReason =
  | 'credential missing'
  | 'malformed'
  | 'unknown key'
  | 'wrong secret'
  | 'revoked'
  | 'expired'
  | 'wrong signature'
  | 'claims not accepted'
  | 'app not installed'
  | 'partner tokens not configured'
  | 'token not accepted'
  | 'scope missing'
  | 'permission missing'
  | 'host'
  | 'origin';

export interface Refusal {
  readonly reason: RefusalReason;
  /** The id of a refused API key that has one; it is no secret. */
  readonly keyId?: string | undefined;
  /** The client that a refused token was issued to, once its signature was verified. */
  readonly clientId?: string | undefined;
}

/** Is called once with why a request is refused. */
export type OnRefused = (refusal: Refusal) => void;
