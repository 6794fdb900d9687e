import { NOT_FOUND, type PublicError } from '../../services/contract/errors.ts';
import * as errors from '../../services/contract/public-errors.ts';
import { shapeError } from '../../services/contract/shape.ts';
import { UNSTABLE } from '../../services/contract/versions.ts';
import { type Html, html } from '../oauth/pages/html.ts';

const INVALID = errors.invalidField('trigger', 'is required');
const REFUSAL = {
  message: 'The return is closed and cannot be processed.',
  code: 'UNPROCESSABLE_RETURN',
};

/** Which errors have which body in the released versions. The first one that fits counts. */
const SHAPES: readonly (readonly [when: string, example: PublicError])[] = [
  ['401 of every operation', errors.unauthorized()],
  ['403, of dispositioning', errors.forbidden()],
  ['404 of a webhook, a delivery, a replay', NOT_FOUND.webhook],
  ['404 of a destination', NOT_FOUND.destination],
  ['404 of process return', NOT_FOUND.processReturn],
  ['404 of other objects; 409 of most operations', NOT_FOUND.returnDetails],
  ['409 of sending one delivery again', errors.notReplayable('the delivery is waiting already')],
  ['422 of the address of a webhook', errors.webhookRejected('the url must be https')],
  ['every other error, such as a 422 of a field, a 404 of a path, 429 and 5xx', INVALID],
];

/** The section that says what a program finds where. Its bodies are those that the gateway sends. */
export function errorShapes(): Html {
  const rows = SHAPES.map(
    ([
      when,
      { body },
    ]) => html`<tr><td>${when}</td><td><code>${JSON.stringify(body)}</code></td></tr>
`,
  );
  return html`<h2 id="how-an-error-looks">How an error looks</h2>
<p>In every version the code is in the header <code>Link</code>, after the <code>#</code>:</p>
<pre tabindex="0"><code>Link: &lt;/docs/errors#VALIDATION_FAILED&gt;; rel="help"</code></pre>
<p>So read the status and this header first, and show the message of the body to people. Texts may change, codes do not.
The header <code>X-Service-Hint</code>, where there is one, says what was ignored, or what you may have meant.
The bodies of released versions differ by operation:</p>
<div class="wide" tabindex="0"><table>
<thead><tr><th>Error</th><th>Body</th></tr></thead>
<tbody>
${rows}</tbody>
</table></div>
<p>In <code>${UNSTABLE}</code> every error has the same body, a problem document (RFC 9457, <code>${shapeError(UNSTABLE, INVALID).contentType}</code>):</p>
<pre tabindex="0"><code>${JSON.stringify(shapeError(UNSTABLE, INVALID).body, undefined, 2)}</code></pre>
<p>Process return rejects a return inside a 200, in every version. Look for <code>errors</code> in the body, which is <code>true</code> otherwise:</p>
<pre tabindex="0"><code>${JSON.stringify({ errors: REFUSAL })}</code></pre>
`;
}
