/** Why a request was rejected. Only the access log has the reason. The caller never gets it. */
export type RejectionReason =
  | 'credential missing'
  | 'malformed'
  | 'unknown key'
  | 'wrong secret'
  | 'other environment'
  | 'revoked'
  | 'expired'
  | 'waits for an owner'
  | 'wrong signature'
  | 'claims not accepted'
  | 'app not installed'
  | 'partner tokens not configured'
  | 'token not accepted'
  | 'scope missing'
  | 'permission missing'
  | 'host'
  | 'origin';

export interface Rejection {
  readonly reason: RejectionReason;
  /** The id of a rejected API key, if it has one; the id is not secret. */
  readonly keyId?: string | undefined;
  /** The client of a rejected token, if its signature is valid. */
  readonly clientId?: string | undefined;
}

/** Called once, with the reason, when a request is rejected. */
export type OnRejected = (rejection: Rejection) => void;
