// JSON with line breaks. Only white space is changed: parsing and writing it anew would lose long numbers and doubled members.

export function pretty(text) {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) ?? [];
  let depth = 0;
  let out = "";
  const line = () => `\n${"  ".repeat(depth)}`;
  tokens.forEach((token, index) => {
    const before = tokens[index - 1];
    if (token === "}" || token === "]") {
      depth -= 1;
      out += before === "{" || before === "[" ? token : line() + token;
      return;
    }
    if (before === "{" || before === "[" || before === ",") out += line();
    out += token === ":" ? ": " : token;
    if (token === "{" || token === "[") depth += 1;
  });
  return out;
}
