import { ERROR_HELP } from '../../services/contract/error-help.ts';

/** The page to which every error links: each code, what it means, and what to do. */
export function errorsPage(): string {
  const sections = Object.entries(ERROR_HELP).map(
    ([code, { statuses, meaning, help }]) =>
      `<h2 id="${code}">${code} <small>${statuses.join(', ')}</small></h2>
<p>${escaped(meaning)}</p>
<p><strong>What to do.</strong> ${escaped(help)}</p>`,
  );
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Errors of the Returns API</title>
<style>
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }
body { max-width: 42rem; margin: 2rem auto; padding: 0 1rem; }
h2 { font-size: 1.1rem; margin-top: 2rem; overflow-wrap: anywhere; }
:target { outline: 2px solid; outline-offset: .4rem; }
</style>
</head>
<body>
<h1>Errors of the Returns API</h1>
<p>Every error links to its code on this page. Problem documents have it in <code>code</code>.
Send the header <code>X-Request-Id</code> of an answer to support.</p>
${sections.join('\n')}
</body>
</html>
`;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
