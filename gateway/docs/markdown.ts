import { Marked, Renderer, type Token, type Tokens } from 'marked';
import { Html, html } from '../oauth/pages/html.ts';

export interface Rendered {
  /** The text of the first heading. */
  readonly title: string;
  readonly body: Html;
}

interface RenderOptions {
  /** The address of a link; undefined leaves only its text. */
  readonly linkTo: (href: string) => string | undefined;
  /** Whether each entry of a top-level list has an address of its own. */
  readonly hasEntries?: boolean | undefined;
}

/** Renders a page of our documentation. HTML in the text is shown, not used. */
export function renderMarkdown(text: string, o: RenderOptions): Rendered {
  const ids = createIds();
  const marked = new Marked();
  const tokens = marked.lexer(text);
  const entries = new Set(o.hasEntries ? topLevelItems(tokens) : []);
  const contents: Html[] = [];
  const plain = new Renderer();
  let section = '';
  let title = '';

  marked.use({
    renderer: {
      html: (token) => html`${token.text}`.text,
      image: (token) => html`${token.text}`.text,
      heading(token) {
        const inner = this.parser.parseInline(token.tokens);
        const words = wordsOf(token.text);
        if (token.depth === 1) title ||= words;
        const id = ids.headingOf(words);
        if (token.depth === 1) return `<h1 id="${id}">${inner}</h1>\n`;
        section = id;
        if (token.depth <= 3) contents.push(html`<li><a href="#${id}">${words}</a></li>`);
        return `<h${token.depth} id="${id}">${inner}${selfLink(id, words)}</h${token.depth}>\n`;
      },
      listitem(item) {
        const inner = this.parser.parse(item.tokens);
        if (!entries.has(item)) return `<li>${inner}</li>\n`;
        const label = labelOf(item.text);
        const id = ids.entryOf(section, label);
        return `<li id="${id}">${inner}${selfLink(id, label)}</li>\n`;
      },
      link(token) {
        const inner = this.parser.parseInline(token.tokens);
        const target = o.linkTo(token.href);
        return target === undefined ? inner : html`<a href="${target}">${new Html(inner)}</a>`.text;
      },
      // A table that is wider than a phone scrolls alone, without the page. It also scrolls with the arrow keys.
      table(token) {
        plain.parser = this.parser;
        return `<div class="wide" tabindex="0">${plain.table(token)}</div>\n`;
      },
      code: ({ text: code }) =>
        html`<pre tabindex="0"><code>${code}</code></pre>
`.text,
    },
  });
  const body = marked.parser(tokens);
  return { title, body: withContents(body, contents) };
}

function* topLevelItems(tokens: readonly Token[]): Iterable<Tokens.ListItem> {
  for (const token of tokens) if (token.type === 'list') yield* (token as Tokens.List).items;
}

/** The text without its marks. */
function wordsOf(markdown: string): string {
  return markdown.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll(/[`*]/g, '');
}

/** Number of words of an entry without a bold label. */
const LABEL_WORDS = 6;

/** The bold words at the beginning of an entry, or its first words. */
function labelOf(markdown: string): string {
  const bold = /^\*\*(.+?)[.:]?\*\*/.exec(markdown)?.[1];
  const [sentence = ''] = wordsOf(markdown).split(/[.:]\s|\s\(/);
  return bold ?? sentence.split(/\s+/).slice(0, LABEL_WORDS).join(' ');
}

function selfLink(id: string, words: string): string {
  return html` <a class="self" href="#${id}" aria-label="Link to: ${words}">#</a>`.text;
}

/** Number of headings from which a page lists them. */
const LONG = 4;

/** Puts the list of the headings after the first one. */
function withContents(body: string, contents: readonly Html[]): Html {
  if (contents.length < LONG) return new Html(body);
  const list = html`<details>
<summary>On this page</summary>
<ul>
${contents}
</ul>
</details>
`;
  return new Html(body.replace('</h1>\n', () => `</h1>\n${list.text}`));
}

/** Ids of the parts of one page, for links to them. Each is given once. */
interface Ids {
  /** The id that GitHub gives a heading, so that links to it work there and here. */
  headingOf(words: string): string;
  /** The id of an entry below the heading `section`. Entries of other sections do not change it. */
  entryOf(section: string, label: string): string;
}

function createIds(): Ids {
  const given = new Map<string, number>();
  const unique = (id: string): string => {
    const nth = given.get(id) ?? 0;
    given.set(id, nth + 1);
    return nth === 0 ? id : unique(`${id}-${nth}`);
  };
  return {
    headingOf: (words) => unique(slug(words)),
    entryOf: (section, label) => unique(`${section}-${slug(label)}`.replaceAll(/-{2,}/g, '-')),
  };
}

function slug(words: string): string {
  return words
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .trim()
    .replaceAll(' ', '-');
}
