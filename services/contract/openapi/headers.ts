// Response headers of the OpenAPI documents.
import { ENVIRONMENT_HEADER, SANDBOX } from '../environment.ts';

type HeaderMap = Record<string, object>;

const text = (description: string) => ({ description, schema: { type: 'string' } });

/** The headers of every response of a version. */
export function commonHeaders(unstable: boolean): HeaderMap {
  return {
    'X-Request-Id': required(text('The id of this request in logs. Send it to support')),
    'X-Service-API-Version': required(text('The version that served the request')),
    [ENVIRONMENT_HEADER]: { $ref: `#/components/headers/${ENVIRONMENT_HEADER}` },
    'RateLimit-Policy': { $ref: '#/components/headers/RateLimit-Policy' },
    RateLimit: { $ref: '#/components/headers/RateLimit' },
    ...(unstable
      ? {
          'X-Service-API-Warning': required(text('The unstable version may change')),
          Link: text('Of an error: the page that explains it (`rel="help"`)'),
        }
      : {
          Sunset: text('When a deprecated version retires: an HTTP date (RFC 8594)'),
          Deprecation: text('When the version became deprecated (RFC 9745)'),
          Link: text(
            'The changelog of a deprecated version; the successor of a retired one; of an error the page that explains it (`rel="help"`)',
          ),
        }),
  };
}

/** The headers that responses refer to. */
export const SHARED_HEADERS = {
  [ENVIRONMENT_HEADER]: {
    description:
      'For callers of a sandbox shop, in every response after their credential was accepted, errors included. A live shop never has it',
    schema: { type: 'string' as const, enum: [SANDBOX] },
  },
  'RateLimit-Policy': {
    description:
      'The limit that the request was counted for: its name, `q` requests in `w` seconds (draft-ietf-httpapi-ratelimit-headers). Large bodies and responses count as several requests. In every response to an accepted credential, and in a 429',
    schema: { type: 'string' as const },
    example: '"requests";q=600;w=60',
  },
  RateLimit: {
    description:
      'What is left of the limit: `r` requests until it is full again in `t` seconds. An estimate while several processes count',
    schema: { type: 'string' as const },
    example: '"requests";r=540;t=31',
  },
};

/** The headers that a status adds. */
export function headersOf(status: number): HeaderMap {
  if (status === 401 || status === 403)
    return { 'WWW-Authenticate': required(text('How to authenticate')) };
  if (status === 404)
    return { 'X-Service-Hint': text('What the caller may have meant, for people') };
  if (status === 429 || status === 503) {
    const schema = { type: 'integer', minimum: 1 };
    return { 'Retry-After': required({ description: 'Seconds to wait', schema }) };
  }
  return {};
}

function required(header: object): object {
  return { ...header, required: true };
}
