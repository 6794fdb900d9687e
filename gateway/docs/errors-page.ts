import {
  ERROR_HELP,
  type ErrorHelp,
  PROCESS_REFUSAL_HELP,
} from '../../services/contract/error-help.ts';
import type { ProcessRefusalCode } from '../../services/contract/vocabulary.ts';
import { type Html, html } from '../oauth/pages/html.ts';
import { ERROR_EXAMPLES, httpText, responseText } from './error-examples.ts';
import { errorShapes } from './error-shapes.ts';
import type { Rendered } from './markdown.ts';

/** The page to which every error links: how errors look, each code, what it means, and what to do. */
export function errorsPage(): Rendered {
  const title = 'Errors of the Returns API';
  return {
    title,
    body: html`<h1>${title}</h1>
<p>For engineers who call the API. This page says how an error looks, what each code means, and how a response with it may look.
Every error links to its code here. Send the header <code>X-Request-Id</code> of an answer to support.</p>
${errorShapes()}
${sectionsOf(ERROR_HELP, (code) => responseText(ERROR_EXAMPLES[code]))}
${sectionsOf(PROCESS_REFUSAL_HELP, refusalText)}`,
  };
}

/** @param exampleOf a response with this code, as text. */
function sectionsOf<K extends string>(
  codes: Readonly<Record<K, ErrorHelp>>,
  exampleOf: (code: K) => string,
): Html[] {
  return keysOf(codes).map((code) => {
    const { statuses, meaning, help } = codes[code];
    return html`<h2 id="${code}">${code} <small>${statuses.join(', ')}</small></h2>
<p>${meaning}</p>
<p><strong>What to do.</strong> ${help}</p>
<pre tabindex="0"><code>${exampleOf(code)}</code></pre>
`;
  });
}

function keysOf<K extends string>(record: Readonly<Record<K, unknown>>): K[] {
  return Object.keys(record) as K[];
}

const REFUSALS: Readonly<Record<ProcessRefusalCode, string>> = {
  UNPROCESSABLE_RETURN: 'The return is closed and cannot be processed.',
  UNPROCESSABLE_FLAGGED_RETURN:
    'The return is flagged: a user must review it before it can be processed.',
};

function refusalText(code: ProcessRefusalCode): string {
  return httpText({
    status: 200,
    headers: {},
    body: { errors: { message: REFUSALS[code], code } },
  });
}
