import type { CaughtMail } from '../local/mails.ts';
import type { Webhook } from './received.ts';

/** The demo's shops, keys and users as JSON. `ready` is true when the demo data is complete. */
export interface Contents {
  ready: boolean;
  json: object;
}

const STYLE = `
  :root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
  body { margin: 2rem auto; width: min(70rem, 94vw); }
  table { border-collapse: collapse; width: 100%; }
  td, th { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid #8884; vertical-align: top; }
  pre { overflow: auto; max-height: 20rem; }
`;

/** The page for people: received webhooks and mails, and the shops, keys and users. */
export function demoPage(
  contents: Contents,
  {
    webhooks,
    mails,
  }: { readonly webhooks: readonly Webhook[]; readonly mails: readonly CaughtMail[] },
): string {
  const letters = mails.map(
    (one) =>
      `<tr><td>${text(one.at)}<td>${text(one.to)}<td><details><summary>${text(one.subject)}</summary><pre>${text(one.text)}</pre></details>`,
  );
  const rows = webhooks.map(
    (one) =>
      `<tr><td>${text(one.received_at)}<td>${text(one.path)}<td>${text(one.webhook_id)}<td>${one.valid ? 'valid' : 'not valid'}<td><details><summary>payload</summary><pre>${text(JSON.stringify(one.payload, null, 2))}</pre></details>`,
  );
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="5">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Webhooks and mails</title><style>${STYLE}</style></head><body><main>
<h1>Webhooks that arrived</h1>
<p>${rows.length === 0 ? 'None yet. Process a return, and one arrives.' : 'The newest first; <a href="webhooks.json">all as JSON</a>.'}</p>
<table><thead><tr><th>Time<th>Path<th>webhook-id<th>Signature<th>Payload</thead><tbody>${rows.join('\n')}</tbody></table>
<h1>Mails that were caught</h1>
<p>${letters.length === 0 ? 'None yet. Show the secret of a webhook, and one arrives after a minute.' : 'The newest first; <a href="mails.json">all as JSON</a>. None leaves the cluster.'}</p>
<table><thead><tr><th>Time<th>To<th>Mail</thead><tbody>${letters.join('\n')}</tbody></table>
<h1>What there is to try</h1>
<p>${contents.ready ? 'Shops, API keys and people, also as <a href="demo.json">JSON</a>.' : 'The demo data is being created.'}</p>
<pre>${text(JSON.stringify(contents.json, null, 2))}</pre>
</main></body></html>`;
}

function text(value: string): string {
  return value.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
