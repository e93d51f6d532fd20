// The order service: reads an order a line, {"customer": "ada", "cents": 2500}, and answers with its id.
//
// A line of stdin stands for an HTTP request. PGHOST, PGDATABASE, PGUSER and so on name the database.
import { createInterface } from 'node:readline'
import knex from 'knex'

const db = knex({ client: 'pg', connection: {}, pool: { min: 0, max: 10 } })

// begin: emit
/**
 * Emits in the transaction: there is an event if, and only if, that commits. Called with `db` in place of a
 * transaction it would use another connection, and commit at once.
 */
async function emit(trx, aggregateType, aggregateId, eventType, payload) {
  // A string, as node-postgres makes an array of PostgreSQL's out of one of JavaScript's.
  const values = [aggregateType, aggregateId, eventType, JSON.stringify(payload)]
  const { rows } = await trx.raw('select outbox.emit(?, ?, ?, ?::jsonb) as id', values)
  return rows[0].id
}

/** Resolves when the commit is done, and rejects if it is not: then there is neither order nor event. */
function placeOrder({ customer, cents }) {
  return db.transaction(async (trx) => {
    const [order] = await trx('orders').insert({ customer, cents }).returning('id')
    // A bigint comes as a string, as a number would not be exact beyond 2 ** 53.
    await emit(trx, 'order', order.id, 'order.placed', { order_id: Number(order.id), customer, cents })
    return order.id
  })
}
// end: emit

/** Undefined if the line is no order. */
function readOrder(line) {
  try {
    const { customer, cents } = JSON.parse(line)
    if (typeof customer === 'string' && Number.isSafeInteger(cents)) return { customer, cents }
  } catch {
    // as below
  }
  return undefined
}

/** Throws only what the request is not to be blamed for. */
async function handle(line) {
  const order = readOrder(line)
  if (!order) return 'refused: an order has a customer and cents'
  try {
    return await placeOrder(order)
  } catch (error) {
    // An error about data or, also from the commit, a constraint.
    if (!/^2[23]/.test(error.code ?? '')) throw error
    return `refused: ${error.message}`
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(await handle(line))
}
await db.destroy()
