import { releasedVersions, supportedVersions, UNSTABLE } from '../../services/contract/versions.ts';
import { type Html, html } from '../oauth/pages/html.ts';
import type { Rendered } from './markdown.ts';
import { DOCS_PATHS } from './paths.ts';

/** The first page of the documentation: what there is, and where. @param publicUrl the public base address. */
export function indexPage(today: Date, publicUrl: string): Rendered {
  const title = 'Returns Management Service';
  const link = (path: string, text: string): Html => html`<a href="${path}">${text}</a>`;
  return {
    title: 'Documentation',
    body: html`<h1>${title}</h1>
<p>Returns of merchants over a versioned REST API, signed webhooks, and assistants. The base address here is <code>${publicUrl}</code>.</p>
<h2 id="start">Start here</h2>
<dl>
<dt>${link(DOCS_PATHS.quickstart, 'Quickstart')}</dt>
<dd>From a key to the first verified webhook in five minutes, with commands to copy. Then: rotate the secret, list returns, send deliveries again.</dd>
<dt>${link(DOCS_PATHS.receivers, 'Receivers of webhooks')}</dt>
<dd>Files to copy in Node, Python, Go, Ruby and PHP, and what a receiver must do.</dd>
</dl>
<h2 id="reference">Reference</h2>
<dl>
<dt>${link(DOCS_PATHS.reference, 'API reference')}</dt>
<dd>Every operation, to try out in the browser. One for each version:
<ul>
${versions(today)}</ul></dd>
<dt>${link(DOCS_PATHS.webhooks, 'Webhooks')}</dt>
<dd>What you can rely on: promises, headers, retries, limits, when each event is sent.</dd>
<dt>${link(DOCS_PATHS.errors, 'Errors')}</dt>
<dd>Each code, what it means, and what to do.</dd>
<dt>${link(DOCS_PATHS.changelog, 'Changelog')}</dt>
<dd>What changed, newest version first.</dd>
</dl>
<h2 id="without-code">Without writing code</h2>
<dl>
<dt>${link(DOCS_PATHS.mcp, 'Assistants (MCP)')}</dt>
<dd>Connect Claude, ChatGPT, Cursor or another MCP client to <code>${publicUrl}/mcp</code>. ${link(DOCS_PATHS.tools, 'All tools')}.</dd>
<dt>${link('/portal', 'Portal')}</dt>
<dd>Where people of a shop see returns, watch webhooks, and manage keys and the team.</dd>
</dl>`,
  };
}

function versions(today: Date): Html[] {
  const supported = supportedVersions(today);
  const released = releasedVersions(today)
    .filter(({ version }) => supported.includes(version))
    .toReversed()
    .map(({ version, stage, sunsetAt }) => ({
      version,
      about: `${stage}, until ${sunsetAt.toISOString().slice(0, 10)}`,
    }));
  return [...released, { version: UNSTABLE, about: 'preview of the next version' }].map(
    ({ version, about }) =>
      html`<li><a href="${DOCS_PATHS.reference}/${version}">${version}</a> <small>(${about}; <a href="/openapi/${version}.json">OpenAPI document</a>)</small></li>
`,
  );
}
