import { z } from 'zod';
import { listFraudCategories as list } from '../../actions/fraud.ts';
import { defineTool, readOnlyHints } from '../tool.ts';

export const listFraudCategories = defineTool({
  name: 'list_fraud_categories',
  title: 'List fraud categories',
  description:
    'Use this when you are about to create a fraud report and need to know which categories there are, and which of them need a comment.',
  hints: readOnlyHints('the fixed list of categories'),
  input: z.strictObject({}),
  output: z.strictObject({
    categories: z.array(
      z.strictObject({ category: z.string(), title: z.string(), comment_required: z.boolean() }),
    ),
  }),
  async run(context) {
    const categories = await list(context);
    return {
      categories: categories.map(({ id, title, commentRequired }) => ({
        category: id,
        title,
        comment_required: commentRequired,
      })),
    };
  },
});
