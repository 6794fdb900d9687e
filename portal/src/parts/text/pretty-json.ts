const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** JSON with line breaks; unchanged when it is not JSON. Numbers and texts stay as they were sent: `10.00` is not `10`. */
export function prettyJson(text: string): string {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  const tokens = text.match(TOKEN) ?? [];
  let depth = 0;
  const line = () => `\n${'  '.repeat(depth)}`;
  const parts = tokens.map((token, index) => {
    const isEmpty = (open: string | undefined, close: string | undefined) =>
      (open === '{' && close === '}') || (open === '[' && close === ']');
    if (token === '{' || token === '[') {
      depth += 1;
      return isEmpty(token, tokens[index + 1]) ? token : `${token}${line()}`;
    }
    if (token === '}' || token === ']') {
      depth -= 1;
      return isEmpty(tokens[index - 1], token) ? token : `${line()}${token}`;
    }
    if (token === ',') return `,${line()}`;
    return token === ':' ? ': ' : token;
  });
  return parts.join('');
}
