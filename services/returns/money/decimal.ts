/** Whether two decimal texts are the same number. Leading and trailing zeros do not matter. */
export function sameDecimal(one: string, other: string): boolean {
  return isDecimal(one) && isDecimal(other) && plain(one) === plain(other);
}

const isDecimal = (text: string): boolean => /^\d+(\.\d+)?$/.test(text);

function plain(text: string): string {
  const [units = '', fraction = ''] = text.split('.');
  return `${units.replace(/^0+(?=\d)/, '')}.${fraction.replace(/0+$/, '')}`;
}
