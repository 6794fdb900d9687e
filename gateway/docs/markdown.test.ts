import { describe, expect, test } from '@jest/globals';
import { renderMarkdown } from './markdown.ts';

const render = (text: string, hasEntries = false) =>
  renderMarkdown(text, {
    linkTo: (href) => (href === 'other.md' ? '/docs/other' : undefined),
    hasEntries,
  }).body.text;

/** Every id of a page, in order. */
const idsOf = (page: string) => [...page.matchAll(/ id="([^"]*)"/g)].map(([, id]) => id);

describe('a page in Markdown', () => {
  test.each([
    '<script>alert(1)</script>',
    'a <img src=x onerror=alert(1)> b',
    '<div onclick="alert(1)">\n\ntext',
    '![alt](https://example.com/x.png)',
  ])('shows HTML and images as text: %s', (text) => {
    expect(render(`# T\n\n${text}\n`)).not.toMatch(/<(script|img|div)/);
  });

  test('code is escaped once, and scrolls with the keys', () => {
    expect(render('# T\n\n```sh\nID=<your "id"> & x\n```\n')).toContain(
      '<pre tabindex="0"><code>ID=&#60;your &#34;id&#34;&#62; &#38; x</code></pre>',
    );
  });

  test('links to what is served are links, others are text', () => {
    expect(render('# T\n\n[a](other.md) and [b](src/main.ts)\n')).toContain(
      '<p><a href="/docs/other">a</a> and b</p>',
    );
  });

  test('wide tables scroll by themselves', () => {
    expect(render('# T\n\n| a |\n|---|\n| `b` |\n')).toMatch(
      /<div class="wide" tabindex="0"><table>.*<code>b<\/code>.*<\/table>\n<\/div>/s,
    );
  });

  test('headings have the ids of GitHub, and a repeated one a number', () => {
    const page = render('# The `title`\n\n## 1. A & b\n\n## Same\n\n## Same\n');
    expect(idsOf(page)).toEqual(['the-title', '1-a--b', 'same', 'same-1']);
  });

  test('a long page lists its headings', () => {
    const headings = ['One', 'Two', 'Three', 'Four'].map((word) => `## ${word}\n\ntext\n`);
    expect(render(`# T\n\n${headings.join('\n')}`)).toMatch(
      /<\/h1>\n<details>.*href="#four".*<\/details>/s,
    );
    expect(render('# T\n\n## One\n')).not.toContain('<details>');
  });
});

describe('entries of a changelog', () => {
  const log = `# Log

## 2026-10

- **Breaking.** A thing:
  - nested
- \`GET /x\` (scope \`y\`): more words than are needed for an id
- **Texts.** b

### 2026-11: webhooks

- **Texts.** a
- **Texts.** b
`;
  test('have ids by section and label', () => {
    expect(idsOf(render(log, true))).toEqual([
      'log',
      '2026-10',
      ...['2026-10-breaking', '2026-10-get-x', '2026-10-texts'],
      '2026-11-webhooks',
      ...['2026-11-webhooks-texts', '2026-11-webhooks-texts-1'],
    ]);
  });
  test('keep their ids when another section gets entries', () => {
    const before = idsOf(render(log, true));
    const after = idsOf(render(log.replace('### 2026-11', '- **New.** c\n\n### 2026-11'), true));
    expect(after).toEqual(expect.arrayContaining(before));
  });
  test('have no ids on other pages', () => {
    expect(idsOf(render(log))).toEqual(['log', '2026-10', '2026-11-webhooks']);
  });
});
