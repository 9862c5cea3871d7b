"""New workflow files: each template, where they may lie, what they may be called."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from Middleware.api.console.file_views import templates
from Middleware.common.request_context import ClientQuestion, RequestContext
from Middleware.config.users import load_user
from Middleware.workflows.managers.workflow_manager import WorkflowManager
from tests.api.console.config_house import house as house

NEW = "Workflows/mira/New.json"
NAMES = ["agent", "branch", "chat", "draft-critic-answer", "empty", "memory", "parallel", "router"]


def make(house, template="chat", path=NEW, **fields):
    """(status, value) of a new file."""
    return house.ask("POST", "workflows", body={"path": path, "template": template, **fields})


def answer_of(house, name: str) -> str:
    """What a request to this workflow gets."""
    snapshot = house.hub.snapshot()
    user = load_user(snapshot, "mira")
    manager = WorkflowManager(user, RequestContext("new", "mira", "openaichatcompletion", snapshot=snapshot))
    question = ClientQuestion([{"role": "user", "content": "Hello"}])
    return "".join(chunk["token"] for batch in manager.open_run(name, question) for chunk in batch)


class TestTemplates:
    def test_there_are_these(self):
        """The names of spec console.md 9.7 and workbench.md 2."""
        assert sorted(templates()) == NAMES

    @pytest.mark.parametrize("name", NAMES)
    def test_each_begins_with_a_line_that_explains_it(self, name):
        """One sentence, as a comment."""
        first = templates()[name].splitlines()[0]
        assert first.startswith("// ") and first.endswith(".")

    @pytest.mark.parametrize("name", NAMES)
    def test_each_is_right_and_answers(self, house, name):
        """`--validate` finds nothing, and the built-in demo model answers through it."""
        status, told = make(house, name)
        assert (status, told["path"], told["kind"], told["user"]) == (201, NEW, "workflow", "mira")
        assert told["text"] == house.bytes_of(NEW).decode() and told["version"] == house.version(NEW)
        assert told["writable"] is True and told["graph"]["responder"] in (2, len(told["graph"]["nodes"]))
        house.write("Workflows/mira/Start.json", [{"type": "CustomWorkflow", "workflowName": "New"}])
        house.write(
            "Users/mira.json", {"port": 5000, "customWorkflowOverride": True, "customWorkflow": "Start"}
        )
        assert [finding for finding in house.findings() if "Main.json" not in finding] == []
        assert len(answer_of(house, "New")) > 10

    def test_a_branch_goes_on_with_workflows_that_are_there(self, house):
        """Of the same folder; it makes no second file."""
        house.write("Workflows/mira/Settings.json", {"chunkSize": 5})
        house.write("Workflows/mira/Other.json", [{"type": "StaticResponse", "content": "x"}])
        make(house, "branch")
        branches = house.hub.snapshot().read(NEW)["nodes"][1]["conditionalWorkflows"]
        assert branches == {"yes": "Main", "Default": "Other"}
        assert sorted(path.name for path in (house.root / "Workflows/mira").iterdir()) == [
            *("Main.json", "New.json", "Other.json", "Settings.json")
        ]

    def test_a_branch_needs_a_workflow(self, house):
        """Without any it would lead nowhere."""
        (house.root / "Workflows/mira/Main.json").unlink()
        status, told = make(house, "branch")
        assert (status, told["error"]) == (
            422,
            "the template branch needs a workflow to continue with: create that one first",
        )

    def test_a_copy_is_the_same_bytes(self, house):
        """Secrets too; the answer shows none."""
        raw = house.write(
            "Workflows/mira/Main.json",
            b'\xef\xbb\xbf[{"type":"StaticResponse","content":"x","token":"s3"}]\r\n',
        )
        status, told = make(house, "copy:Workflows/mira/Main.json")
        assert (status, house.bytes_of(NEW)) == (201, raw)
        assert "s3" not in json.dumps(told)

    @pytest.mark.parametrize("path", ["Workflows/mira/None.json", "Users/mira.json", "../x.json", ""])
    def test_only_a_workflow_is_copied(self, house, path):
        """404 for all else."""
        assert make(house, f"copy:{path}") == (404, {"error": "no such file"})

    def test_a_copy_of_a_faulty_file_is_refused(self, house):
        """422 with its problems."""
        house.write("Workflows/mira/Main.json", "[{")
        status, told = make(house, "copy:Workflows/mira/Main.json")
        assert status == 422 and told["problems"] and not (house.root / NEW).exists()

    def test_another_template_is_refused(self, house):
        """With the names that there are."""
        allowed = f"{', '.join(NAMES)}, copy:<path>"
        assert make(house, "fancy") == (400, {"error": f'template: found "fancy", allowed: {allowed}'})


class TestEndpoint:
    @pytest.mark.parametrize(
        ("wanted", "got"), [(None, "Big"), ("", "Big"), ("Small \u201eA\u201c", "Small \u201eA\u201c")]
    )
    def test_it_takes_the_place_of_the_word(self, house, wanted, got):
        """None given: the first that can answer."""
        house.write("ApiTypes/Embed.json", {"type": "openAIEmbeddings"})
        house.write("Endpoints/A first.json", {"endpoint": "http://h", "apiTypeConfigFileName": "Embed"})
        house.write("Endpoints/Small \u201eA\u201c.json", {"endpoint": "", "apiTypeConfigFileName": "Demo"})
        assert make(house, endpoint=wanted)[0] == 201
        assert [node["endpointName"] for node in house.hub.snapshot().read(NEW)["nodes"]] == [got]

    def test_one_that_is_not_there_is_told(self, house):
        """With a name that is near."""
        status, told = make(house, endpoint="Bug")
        assert status == 422 and 'did you mean "Big"?' in told["error"]
        assert not (house.root / NEW).exists()

    def test_a_user_without_any_is_told(self, house):
        """And may begin with `empty`."""
        (house.root / "Endpoints/Big.json").unlink()
        status, told = make(house)
        assert (status, told["error"]) == (
            422,
            "there is no endpoint in Endpoints/: first create one with the address of a model",
        )
        assert make(house, "empty")[0] == 201


class TestPlace:
    @pytest.mark.parametrize(
        "path",
        [
            "Workflows/mira/Größe \u201e1\u201c.json",
            "Workflows/_common/New.json",
            "Workflows/_shared/novel/_DefaultWorkflow.json",
        ],
    )
    def test_it_may_lie_here(self, house, path):
        """In the user's folder, in `_common`, in a folder of the shared root, which may be new."""
        assert make(house, path=path)[0] == 201
        assert (house.root / path).is_file()

    @pytest.mark.parametrize(
        ("path", "status"),
        [
            ("Workflows/New.json", 403),
            ("Workflows/jo/New.json", 403),
            ("Workflows/_shared/New.json", 403),
            ("Workflows/_shared/a/b/New.json", 403),
            ("Workflows/mira/deeper/New.json", 403),
            ("Users/jo.json", 404),
            ("Endpoints/New.json", 404),
            ("Workflows/mira/../jo/New.json", 404),
            ("/Workflows/mira/New.json", 404),
            ("Workflows/mira/New.txt", 404),
            ("Workflows/mira/.json", 404),
            ("Workflows/mira/a\nb.json", 404),
            ("Workflows/mira/\u202egro.json", 404),
            ("Workflows/mira/C:x.json", 404),
            (f"Workflows/mira/{'a' * 251}.json", 404),
            ("", 404),
            *((f"Workflows/mira/{name}.json", 422) for name in (" ", ".", "CON", "aux.x", "a?", "a ", "a.")),
            ("Workflows/_shared/NUL/_DefaultWorkflow.json", 422),
            ("Workflows/mira/COM\u00b9.json", 422),
            (f"Workflows/mira/{'a' * 240}.json", 422),
            (f"Workflows/mira/{'ä' * 116}.json", 422),
            ("Workflows/mira/mAIN.json", 409),
            ("Workflows/_COMMON/New.json", 403),
        ],
    )
    def test_it_may_not_lie_elsewhere(self, house, path, status):
        """Nor be called anything; nothing is made, no folder either."""
        before = sorted(house.root.rglob("*"))
        assert make(house, path=path)[0] == status
        assert sorted(house.root.rglob("*")) == before

    def test_the_refusal_of_a_name_says_what_is_one(self, house):
        """That the next system, or the next person, can use it, too (workbench.md 16.11)."""
        told = make(house, path="Workflows/mira/CON.json")[1]
        assert told["error"] == (
            'path: found "CON", allowed: names that Windows can store, too: not blank or reserved, without'
            ' < > " | ? *, and no dot or blank at the end'
        )

    def test_the_longest_name_can_be_saved_again(self, house):
        """Its copy has a longer one, which is kept."""
        path = f"Workflows/mira/{'ä' * 114}.json"
        status, made = make(house, path=path)
        assert status == 201
        body = {"text": made["text"] + "\n", "version": made["version"]}
        assert house.ask("PUT", f"workflows/{path}", body=body)[0] == 200

    def test_a_name_that_differs_in_case_alone_is_taken(self, house):
        """Some systems have one file for both."""
        assert make(house, path="Workflows/_shared/novel/_DefaultWorkflow.json")[0] == 201
        for path, there, new in (
            ("Workflows/mira/mAIN.json", "Main.json", "mAIN.json"),
            ("Workflows/_shared/Novel/_DefaultWorkflow.json", "novel", "Novel"),
        ):
            said = f"{there} already exists; some systems cannot tell {new} from it"
            assert make(house, path=path) == (409, {"error": said})

    def test_the_refusal_names_the_folders(self, house):
        """Those of the served users."""
        assert make(house, path="Workflows/jo/New.json")[1] == {
            "error": "new files go into Workflows/mira, a folder of Workflows/_shared or Workflows/_common;"
            ' found "Workflows/jo"'
        }

    def test_a_folder_that_leads_away_is_none(self, house, tmp_path):
        """A link out of `Workflows/`."""
        (tmp_path / "away").mkdir()
        (house.root / "Workflows/_shared").mkdir()
        (house.root / "Workflows/_shared/away").symlink_to(tmp_path / "away")
        assert make(house, path="Workflows/_shared/away/New.json") == (404, {"error": "no such file"})
        assert list((tmp_path / "away").iterdir()) == []

    def test_what_is_there_stays(self, house):
        """409, also for a link that leads nowhere."""
        old = house.bytes_of("Workflows/mira/Main.json")
        (house.root / "Workflows/mira/Link.json").symlink_to("nowhere.json")
        for name in ("Main", "Link"):
            path = f"Workflows/mira/{name}.json"
            assert make(house, path=path) == (409, {"error": f"{path} already exists"})
        assert house.bytes_of("Workflows/mira/Main.json") == old

    def test_one_of_many_at_once_is_made(self, house):
        """The others are told that it is there."""
        with ThreadPoolExecutor(8) as pool:
            said = list(pool.map(lambda _: make(house)[0], range(8)))
        assert sorted(said) == [201, *[409] * 7]

    def test_it_needs_the_right_to_save(self, house):
        """Whoever may only act is told."""
        status, told = house.ask("POST", "workflows", body={}, rights=("look", "act"))
        assert (status, told["need"]) == (403, "save")
