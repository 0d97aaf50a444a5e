from rpcaccel.controlplane.settings.audit import KEEP, Audit, Change


def change(revision: int) -> Change:
    return Change(revision=revision, before=revision - 1, at=0.0, by="me", via="api", action="change")


def test_the_newest_comes_first_and_the_oldest_goes() -> None:
    audit = Audit([change(1)])
    for revision in range(2, KEEP + 5):
        audit.add(change(revision))
    assert [line.revision for line in audit.newest(2)] == [KEEP + 4, KEEP + 3]
    assert len(audit.lines()) == KEEP
    assert audit.newest(-1) == []
    assert repr(audit) == f"<Audit {KEEP} changes>"
