import type { RequestHandler } from 'express';
import { html } from '../oauth/pages/html.ts';
import { DOCUMENT_HEADERS, documentPage } from './document.ts';
import { DOCS_PATHS } from './paths.ts';

const TITLE = 'This page does not exist';

const PAGE = documentPage({
  path: '',
  title: TITLE,
  links: true,
  body: html`<h1>${TITLE}</h1>
<p>The address may be mistyped, or the page has moved. These may help:</p>
<ul>
<li><a href="${DOCS_PATHS.quickstart}">Quickstart</a>: from a key to the first verified webhook.</li>
<li><a href="${DOCS_PATHS.reference}">API reference</a>: every operation, to try out.</li>
<li><a href="${DOCS_PATHS.errors}">Errors</a>: each code, what it means, and what to do.</li>
<li><a href="${DOCS_PATHS.index}">All pages</a>.</li>
</ul>`,
});

/** Answers a browser at an unknown address of the documentation with a page. Other clients get the JSON of every 404. */
export const missingPage: RequestHandler = (req, res, next) => {
  res.vary('Accept');
  // A client without a preference, such as curl, gets JSON.
  if (req.accepts(['json', 'html']) !== 'html') return next();
  for (const [name, value] of Object.entries(DOCUMENT_HEADERS)) res.setHeader(name, value);
  res.status(404).setHeader('Cache-Control', 'no-store').type('html').send(PAGE);
};
