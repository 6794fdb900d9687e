import { ERROR_HELP } from '../../services/contract/error-help.ts';
import { html } from '../oauth/pages/html.ts';
import type { Rendered } from './markdown.ts';

/** The page to which every error links: each code, what it means, and what to do. */
export function errorsPage(): Rendered {
  const sections = Object.entries(ERROR_HELP).map(
    ([code, { statuses, meaning, help }]) =>
      html`<h2 id="${code}">${code} <small>${statuses.join(', ')}</small></h2>
<p>${meaning}</p>
<p><strong>What to do.</strong> ${help}</p>
`,
  );
  const title = 'Errors of the Returns API';
  return {
    title,
    body: html`<h1>${title}</h1>
<p>Every error links to its code on this page. Problem documents have it in <code>code</code>.
Send the header <code>X-Request-Id</code> of an answer to support.</p>
${sections}`,
  };
}
