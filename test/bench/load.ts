/** The requests of a load generator. */

export interface LoadRequest {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly body?: string;
  /** Besides those of the load; not for `saturate`. */
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Load {
  readonly origin: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Each connection repeats the requests of one list. */
  readonly lists: readonly (readonly LoadRequest[])[];
}
