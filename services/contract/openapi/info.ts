import { EXAMPLE_BASE_URL } from '../example-urls.ts';
import { UNSTABLE_WARNING } from '../versions.ts';

// The texts of an OpenAPI document about the whole API.

const INTRODUCTION = `Returns of a merchant: details, processing, dispositions, destinations, fraud reports, carts and webhooks. Operations marked \`x-addition\` and limits marked \`x-service-bound\` are additions of this service. The examples are about the demo shop of a local stack.

**Start here.** [Quickstart](${EXAMPLE_BASE_URL}/docs/quickstart): from a key to the first webhook, and a copy of all returns. [Errors](${EXAMPLE_BASE_URL}/docs/errors): how an error looks, and what to do about each code. [Webhooks](${EXAMPLE_BASE_URL}/docs/webhooks): which topic delivers which event. To try operations out, press *Authorize* and enter the API key alone.

**Receiving webhooks.** Every message is signed after [Standard Webhooks](https://www.standardwebhooks.com): verify \`webhook-signature\` over the unchanged body with the secret that *Create webhook* returned (\`whsec_\` is part of it), and respond with any 2xx within 15 seconds. Otherwise the message is sent again, eleven times in total over three to four days, and later if \`Retry-After\` says so. A response of 410, or only failures for five days, makes the subscription inactive. A repeated \`webhook-id\` is the same message. Messages can arrive in another order: \`X-Service-Sequence\` grows with every change of one return. A payload has the shape of the shop's payload version, not of the version with which the subscription was made; \`X-Service-API-Version\` names it.

**HTTP.** A request body may have \`Content-Encoding: gzip\`; its size counts after decompression. Responses are never compressed: \`Accept-Encoding\` changes nothing, and they have no \`Vary\`. They are not cached (\`Cache-Control: no-store\`) and have no \`ETag\`; conditional requests are answered in full. There is no CORS: an API key belongs on a server, and browsers cannot call the API from another origin. \`HEAD\` is answered as \`GET\` without the body, \`OPTIONS\` with 204 and \`Allow\`, another method with 405 and \`Allow\`.`;

/** The service has no public address but its documentation. The gateway replaces the host, see {@link serversOf}. */
const CONTACT = { name: 'Documentation of this service', url: `${EXAMPLE_BASE_URL}/docs` };
/** The license, as in package.json. */
const LICENSE = { name: 'UNLICENSED: all rights reserved', identifier: 'LicenseRef-UNLICENSED' };

/** The `info` of a document. @param unstable whether the version is the unstable one. */
export function infoOf(version: string, unstable: boolean) {
  return {
    title: 'Returns Management Service',
    version,
    description: unstable ? `${INTRODUCTION}\n\n${UNSTABLE_WARNING}` : INTRODUCTION,
    contact: CONTACT,
    license: LICENSE,
  };
}

/** The `servers` of a document. The gateway replaces {@link EXAMPLE_BASE_URL} by its own address when it serves it. */
export function serversOf(version: string) {
  return [
    { url: `/api/${version}`, description: 'The host that serves this document' },
    {
      url: `{base_url}/api/${version}`,
      description: 'Any host',
      variables: {
        base_url: {
          default: EXAMPLE_BASE_URL,
          description:
            'Base address of the service. `npm start -- --port 8080` serves a local stack at the default; a document that the service serves has its address',
        },
      },
    },
  ];
}
