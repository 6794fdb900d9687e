// Response headers in the OpenAPI documents. Each header is described once, in the components.
import { ENVIRONMENT_HEADER, SANDBOX } from '../environment.ts';
import { PAYLOAD_VERSION_HEADER } from '../resources/webhook.ts';
import { UNSTABLE_WARNING } from '../versions.ts';

type Header = { readonly description: string; readonly schema: object; readonly example?: string };
type HeaderMap = Record<string, Header>;
interface Reference {
  readonly $ref: string;
}

const text = (description: string, example?: string): Header => ({
  description,
  schema: { type: 'string' },
  ...(example === undefined ? {} : { example }),
});
const required = (header: Header) => ({ ...header, required: true });

/** The headers that every response may have. */
const COMMON: HeaderMap = {
  'X-Request-Id': required(text('The id of this request in logs. Send it to support')),
  'X-Service-API-Version': required(text('The version that served the request')),
  'Cache-Control': required({
    description: 'Responses are of one shop at one time: no cache may store them',
    schema: { type: 'string', const: 'no-store' },
  }),
  [ENVIRONMENT_HEADER]: {
    description:
      'For callers of a sandbox shop, in every response after their credential was accepted, errors included. A live shop never has it',
    schema: { type: 'string', enum: [SANDBOX] },
  },
  'X-Service-Hint': text(
    'What the caller may have meant, for people: names a field or parameter that is unknown and was ignored, says what is wrong with a name or an id, or names goods that are paid although they are missing',
    'webhook is no field of this operation and was ignored; did you mean webhook_id?',
  ),
  'RateLimit-Policy': text(
    'A limit of the caller: its name, and `q` requests in `w` seconds (draft-ietf-httpapi-ratelimit-headers). `requests` is the limit of an accepted credential; large bodies and responses count as several requests. After a missing or rejected credential it is `rejected-credentials`, the limit of the address. Absent when the credential was not read',
    '"requests";q=300;w=60',
  ),
  RateLimit: text(
    'What is left of that limit: `r` until it is full again in `t` seconds. An estimate while several processes count',
    '"requests";r=270;t=31',
  ),
};

const LINKS =
  'of a page of a list the next page (`rel="next"`), absent from the last one; of an error the page that explains it (`rel="help"`)';
const NEXT_PAGE =
  '</api/2026-10/warehouse/returns?state=open&cursor=WyIxNzk2NTE1MjAwMDAwIiwiMTEiXQ.d6XzQ3aBv1Y>; rel="next"';

const OF_RELEASED: HeaderMap = {
  Sunset: text('When a deprecated version retires: an HTTP date (RFC 8594)'),
  Deprecation: text('When the version became deprecated (RFC 9745)'),
  Link: text(
    `The changelog of a deprecated version; the successor of a retired one; ${LINKS}`,
    NEXT_PAGE,
  ),
};
const OF_UNSTABLE: HeaderMap = {
  'X-Service-API-Warning': required(text('The unstable version may change', UNSTABLE_WARNING)),
  Link: text(`RFC 8288: ${LINKS}`, NEXT_PAGE),
};

/** The headers that responses with some statuses have. */
const OF_STATUS: HeaderMap = {
  'WWW-Authenticate': required(
    text(
      'How to authenticate: the header of API keys, and what is wrong, for example the missing scope',
      'ApiKey realm="rms", header="X-Authorization", error="insufficient_scope", scope="returns"',
    ),
  ),
  'Retry-After': {
    ...required(text('Seconds to wait')),
    schema: { type: 'integer', minimum: 1 },
  },
};

/** The headers that only some operations have. `success.headers` of an operation names them. */
const OF_OPERATIONS: HeaderMap = {
  [PAYLOAD_VERSION_HEADER]: required(
    text("The API version that shapes the payloads of later events: the shop's", '2026-10'),
  ),
  Location: required(
    text('Path of the details of the return', '/api/2026-10/warehouse/return/details?return_id=1'),
  ),
};

/** The header components of a document. */
export function sharedHeaders(unstable: boolean): HeaderMap {
  return {
    ...COMMON,
    ...(unstable ? OF_UNSTABLE : OF_RELEASED),
    ...OF_STATUS,
    ...OF_OPERATIONS,
  };
}

/**
 * References to the headers of a response with this status.
 *
 * @param own names of the headers that only this operation has.
 */
export function headerReferences(
  status: number,
  unstable: boolean,
  own: readonly string[] = [],
): Record<string, Reference> {
  const names = Object.keys({ ...COMMON, ...(unstable ? OF_UNSTABLE : OF_RELEASED) });
  const all = [...names, ...ownHeaders(status), ...own];
  return Object.fromEntries(all.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

function ownHeaders(status: number): readonly string[] {
  if (status === 401 || status === 403) return ['WWW-Authenticate'];
  return status === 429 || status === 503 ? ['Retry-After'] : [];
}
