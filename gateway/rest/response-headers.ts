import type { ServerResponse } from 'node:http';
import { PAYLOAD_VERSION_HEADER } from '../../services/contract/resources/webhook.ts';
import type { ResponseHeaders } from './handler.ts';
import { addHint } from './send-error.ts';

/** The headers that a handler adds to a response. */
export function responseHeaders(res: ServerResponse): ResponseHeaders {
  return {
    payloadVersion: (version) => res.setHeader(PAYLOAD_VERSION_HEADER, version),
    hint: (text) => addHint(res, text),
  };
}
