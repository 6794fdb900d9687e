import { request } from 'undici';

export interface Sent {
  readonly method?: string;
  readonly path: string;
  /** The API key; null sends none. The test gateway's own when absent. */
  readonly key?: string | null;
  readonly headers?: Record<string, string>;
  /** Sent as JSON. */
  readonly json?: unknown;
  /** Sent as it is. */
  readonly raw?: string | Uint8Array;
  readonly baseUrl?: string;
}

export interface Received {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  readonly body: unknown;
}

/** Where requests go, and the key of those that name none. */
export interface RestTarget {
  readonly gateway: { readonly baseUrl: string };
  readonly key: string;
}

/** A plain HTTP client of the gateway under test: it sends what it is told, and answers what it got. */
export function restClient(under: RestTarget) {
  return async (sent: Sent): Promise<Received> => {
    const { path, json, raw, key = under.key, headers = {} } = sent;
    const hasJson = json !== undefined;
    const method = sent.method ?? (hasJson || raw !== undefined ? 'POST' : 'GET');
    const response = await request(`${sent.baseUrl ?? under.gateway.baseUrl}${path}`, {
      // undici names the methods it knows; anything is sent as it is.
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
