/** The mistakes that `commerce check` must find. */
export const FAULTS = [
  'verifies nothing',
  'ignores the time of the signature',
  'works on late requests',
  'signs the parsed body',
  'answers numbers as amounts',
  'rounds amounts',
  'answers its own currency',
  'knows nothing of what is due',
  'has texts as order ids',
  'forgets keys',
  'compares the request with the key',
  'stores a key after the effect',
  'answers a search with 404',
  'finds nothing',
  'finds across kinds',
  'makes what is searched for',
  'fails at unknown types',
  'accepts every amount',
  'rejects without a reason',
  'loses cents',
  'lists nothing',
  'lists every time',
  'repeats its pages',
  'rejects restocks',
  'restocks a key twice',
  'restocks no lines',
  'cancels a key twice',
  'forgets cancellations',
  'finds orders by the beginning of their name',
  'finds an order for every name',
  'answers an unknown order with 404',
  'finds another order by its id',
  'answers times that contradict each other',
  'answers orders with two decimals',
  'answers more returnable units than ordered',
  'answers a price that contradicts the totals',
  'answers totals without the tax',
  'answers HTML',
  'has two decimals for every currency',
  'answers 500 after the effect',
  'answers too late',
] as const;

/** A mistake that a merchant's endpoint may make, or something that it need not do. */
export type Fault =
  | (typeof FAULTS)[number]
  | 'rejects cancellations'
  | 'rejects the look-up of orders';

/** Whether the endpoint makes this mistake. */
export type Is = (fault: Fault) => boolean;
