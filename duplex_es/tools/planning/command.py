"""``duplex-es plan``: prints a plan, or gives it as JSON."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict

import msgspec

from ..console import Console
from ..errors import ToolError
from .assumptions import Assumption, UnknownAssumption, assumptions_for
from .sizing import Plan, Tier, size

SCHEMA = "duplex_es.plan/1"


async def run(args: argparse.Namespace) -> int:
    """The exit code of ``duplex-es plan``. Raises: ToolError for a model or an assumption that is not known."""
    try:
        found = assumptions_for(args.model, args.set)
    except UnknownAssumption as error:
        raise ToolError(str(error)) from error
    plan = size(args.sessions, {name: one.value for name, one in found.items()})
    if args.json:
        document = {"schema": SCHEMA, "model": args.model, "plan": asdict(plan), "assumptions": list(found.values())}
        Console().line(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
    else:
        show(plan, args.model, found, Console())
    return 0


def show(plan: Plan, model: str, assumptions: Mapping[str, Assumption], console: Console) -> None:
    """The plan as tables: what is needed, what it moves and costs, and all that it rests on."""
    store = plan.store
    console.heading(f"{plan.sessions:,} sessions of {model} at the same time")
    console.table(
        [
            ("gateways", _each(plan.gateways), plan.gateways.why),
            ("workers", _each(plan.workers), plan.workers.why),
            (
                "store",
                f"{store.shards} x {1 + store.replicas} nodes of {assumptions['store_node_gb'].value:g} GB",
                f"{store.why}; {store.memory_gb:,.0f} GB: {store.open_gb:,.0f} of open sessions, {store.closed_gb:,.0f}"
                f" of closed ones; {store.cores:.1f} cores",
            ),
        ],
        width=120,
    )
    console.heading("Traffic")
    console.table(
        [
            ("clients", f"{plan.client_in_gbit:.2f} Gbit/s in, {plan.client_out_gbit:.2f} Gbit/s out"),
            ("store", f"{store.in_gbit:.2f} Gbit/s in, {store.out_gbit:.2f} Gbit/s out, copies not counted"),
            ("its file", f"{store.file_mb_s:,.0f} MB/s, on all primaries together"),
        ]
    )
    console.heading("What costs")
    money = plan.cost_per_hour is not None
    console.table([(name, f"{amount:,.2f} an hour" if money else f"{amount:,.0f}") for name, amount in plan.drivers])
    if money:
        console.line(f"  together {plan.cost_per_hour:,.2f} an hour")
    console.heading("Assumptions (--set NAME=VALUE)")
    console.table(
        [
            (one.name, f"{one.value:g} {one.unit}".strip(), f"{one.meaning}; {one.source}")
            for one in assumptions.values()
        ],
        width=140,
    )
    if plan.warnings:
        console.heading("Look at this")
        for warning in plan.warnings:
            console.table([("-", warning)], width=120)


def _each(tier: Tier) -> str:
    gpus = f", {tier.gpus_each:g} GPU" if tier.gpus_each else ""
    return f"{tier.count:,} x {tier.cores_each:.1f} cores, {tier.memory_gb_each:.1f} GB{gpus}"
