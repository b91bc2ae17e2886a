"""The settings of Clew, and where they are read from."""

from clew.config.settings import BY_NAME as BY_NAME
from clew.config.settings import NO_SETTINGS as NO_SETTINGS
from clew.config.settings import OLD_VARIABLES as OLD_VARIABLES
from clew.config.settings import TABLE as TABLE
from clew.config.settings import VARIABLES as VARIABLES
from clew.config.settings import Settings as Settings
from clew.config.settings import Value as Value
from clew.config.settings import as_duration as as_duration
from clew.config.settings import cache as cache
from clew.config.settings import duration as duration
from clew.config.settings import home as home
from clew.config.settings import load as load
from clew.config.settings import places as places
from clew.config.settings import span as span
from clew.config.settings import unknown_variables as unknown_variables
from clew.config.settings import user_file as user_file
