import type { PublicError } from '../errors.ts';

/** An example value, with a short description for people. */
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
  /** The responses by name, when the operation has several kinds. Then {@link OperationExample.response} is absent. */
  readonly responses?: Readonly<Record<string, NamedValue>>;
  /** A body or a query that breaks a rule. The example of the 422 is the error that validation returns for it. */
  readonly invalid?: object | string;
  /** The error of a second example of the 422: one of a check after the validation, such as a check of the service. */
  readonly rejected?: PublicError;
  /** The error for the example of the 409. */
  readonly conflict?: PublicError;
}
