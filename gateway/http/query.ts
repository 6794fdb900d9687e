interface HasUrl {
  readonly url?: string | undefined;
}

/** The query string of a request as the client sent it, without the question mark. Empty when there is none. */
export function rawQueryOf({ url = '' }: HasUrl): string {
  const start = url.indexOf('?');
  return start === -1 ? '' : url.slice(start + 1);
}

/** The query parameters of a request. A name may occur more than once. */
export function queryOf(req: HasUrl): URLSearchParams {
  return new URLSearchParams(rawQueryOf(req));
}
