/** What a load generator sends. */

export interface LoadRequest {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly body?: string;
}

export interface Load {
  readonly origin: string;
  readonly headers: Readonly<Record<string, string>>;
  /** A connection goes through one of the lists, again and again. */
  readonly lists: readonly (readonly LoadRequest[])[];
}
