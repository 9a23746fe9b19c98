"use strict";
const byId = (id) => document.getElementById(id);

async function call(path, options) {
  try {
    const answer = await fetch(path, options);
    const body = await answer.json();
    byId("problem").textContent = answer.ok ? "" : body.detail;
    return answer.ok ? body : null;
  } catch (err) {
    byId("problem").textContent = "The order service does not answer.";
    return null;
  }
}

function row(order) {
  const tr = document.createElement("tr");
  const id = document.createElement("code");
  id.textContent = order.id;
  for (const value of [id, order.customer, (order.amount / 100).toFixed(2), order.state, order.reason || ""]) {
    tr.insertCell().append(value);
  }
  tr.cells[3].className = order.state;
  const last = tr.insertCell();
  if (order.state === "pending") {
    const button = document.createElement("button");
    button.textContent = "Cancel";
    button.onclick = () => call(`/orders/${order.id}/cancel`, { method: "POST" }).then(refresh);
    last.append(button);
  }
  return tr;
}

async function refresh() {
  const listed = await call("/orders?limit=50");
  if (!listed) return;
  byId("rows").replaceChildren(...listed.orders.map(row));
  byId("counts").textContent = Object.entries(listed.counts).map(([state, count]) => `${state}: ${count}`).join("   ");
}

byId("new").onsubmit = async (event) => {
  event.preventDefault();
  await call("/orders", {
    method: "POST",
    headers: { "Content-Type": "application/json", "Idempotency-Key": crypto.randomUUID() },
    body: JSON.stringify({ customer: byId("customer").value, amount: Number(byId("amount").value) }),
  });
  refresh();
};

async function loop() {
  await refresh();
  setTimeout(loop, 1000);
}
loop();
