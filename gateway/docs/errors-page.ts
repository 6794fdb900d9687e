import {
  ERROR_HELP,
  type ErrorHelp,
  PROCESS_REFUSAL_HELP,
} from '../../services/contract/error-help.ts';
import { type Html, html } from '../oauth/pages/html.ts';
import { errorShapes } from './error-shapes.ts';
import type { Rendered } from './markdown.ts';

/** The page to which every error links: how errors look, each code, what it means, and what to do. */
export function errorsPage(): Rendered {
  const title = 'Errors of the Returns API';
  return {
    title,
    body: html`<h1>${title}</h1>
<p>For engineers who call the API. This page says how an error looks, and what each code means.
Every error links to its code here. Send the header <code>X-Request-Id</code> of an answer to support.</p>
${errorShapes()}
${sectionsOf(ERROR_HELP)}
${sectionsOf(PROCESS_REFUSAL_HELP)}`,
  };
}

function sectionsOf(codes: Readonly<Record<string, ErrorHelp>>): Html[] {
  return Object.entries(codes).map(
    ([code, { statuses, meaning, help }]) =>
      html`<h2 id="${code}">${code} <small>${statuses.join(', ')}</small></h2>
<p>${meaning}</p>
<p><strong>What to do.</strong> ${help}</p>
`,
  );
}
