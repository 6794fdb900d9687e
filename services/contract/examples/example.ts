import type { PublicError } from '../errors.ts';

/** A value with a name for people. */
export interface NamedValue {
  readonly summary: string;
  readonly value: unknown;
}

/** The examples of one operation. Values have the newest form. */
export interface OperationExample {
  /** Absent when the operation has no body. */
  readonly request?: unknown;
  /** Absent when the response has no body. */
  readonly response?: unknown;
  /** Instead of {@link response}, when the operation has several responses. */
  readonly responses?: Readonly<Record<string, NamedValue>>;
  /** A body or a query that breaks a rule. The 422 has the message with which validation rejects it. */
  readonly invalid?: object | string;
  /** Another error of 422 than {@link invalid}. */
  readonly rejected?: PublicError;
  /** The error of 409. */
  readonly conflict?: PublicError;
}
