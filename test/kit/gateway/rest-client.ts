import { request } from 'undici';

export interface Sent {
  readonly method?: string;
  readonly path: string;
  /** The API key. Null sends none. By default the key of the test gateway. */
  readonly key?: string | null;
  readonly headers?: Record<string, string>;
  /** Sent as JSON. */
  readonly json?: unknown;
  /** Sent unchanged. */
  readonly raw?: string | Uint8Array;
  readonly baseUrl?: string;
}

export interface Received {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  readonly body: unknown;
}

/** The target of requests, and the default key. */
export interface RestTarget {
  readonly gateway: { readonly baseUrl: string };
  readonly key: string;
}

/** A plain HTTP client of the gateway under test. */
export function restClient(under: RestTarget) {
  return async (sent: Sent): Promise<Received> => {
    const { path, json, raw, key = under.key, headers = {} } = sent;
    const hasJson = json !== undefined;
    const method = sent.method ?? (hasJson || raw !== undefined ? 'POST' : 'GET');
    const response = await request(`${sent.baseUrl ?? under.gateway.baseUrl}${path}`, {
      // undici's types list only known methods, but undici sends any.
      method: method as 'GET',
      headers: {
        ...(key !== null && { 'x-authorization': key }),
        ...(hasJson && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(hasJson ? { body: JSON.stringify(json) } : raw !== undefined ? { body: raw } : {}),
    });
    const text = await response.body.text();
    return { status: response.statusCode, headers: response.headers, text, body: parse(text) };
  };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
