import { CATEGORY_TEXT } from '../details/inspection.ts';
import type { OperationId } from '../operation.ts';
import { isObject } from '../validate/json-object.ts';
import { CONDITION_CATEGORIES } from '../vocabulary.ts';
import type { VersionChange } from './change.ts';

/** The operations that return the details of a return. */
const DETAILS: ReadonlySet<OperationId> = new Set([
  'getReturnDetails',
  'submitReturn',
  'cancelReturn',
]);

/**
 * 2026-10: `condition.condition_category` of a line item became an object. In 2026-07 it is one word, in return
 * details, in gradings and in payloads of topic `return`.
 */
export const change202610: VersionChange = {
  version: '2026-10',
  about:
    '`condition.condition_category` of a line item is an object, in return details and in webhook payloads of topic `return`',
  inWords: 'The grade of an item is sent as a group of fields instead of one word.',
  topics: ['return'],
  response: (operation, body) => {
    if (operation === 'gradeItems' && Array.isArray(body)) return body.map(lineDown);
    return DETAILS.has(operation) ? downgraded(body) : body;
  },
  payload: downgraded,
  schemas: (components) => {
    const { Condition } = components;
    const properties = isObject(Condition) ? Condition.properties : undefined;
    if (!isObject(properties)) throw new Error('the document has no Condition schema');
    properties.condition_category = {
      anyOf: [{ type: 'string', enum: [...CONDITION_CATEGORIES] }, { type: 'null' }],
      description: CATEGORY_TEXT,
    };
  },
};

function downgraded<T>(details: T): T {
  if (!isObject(details) || !Array.isArray(details.line_items)) return details;
  return { ...details, line_items: details.line_items.map(lineDown) };
}

function lineDown(line: unknown): unknown {
  if (!isObject(line) || !isObject(line.condition)) return line;
  const { condition } = line;
  return {
    ...line,
    condition: { ...condition, condition_category: categoryDown(condition.condition_category) },
  };
}

function categoryDown(category: unknown): unknown {
  if (!isObject(category)) return category;
  return category.grade ? `grade_${category.grade}` : category.category_name;
}
